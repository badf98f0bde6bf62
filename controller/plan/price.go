package plan

import "time"

// Prices is the price list, in any one currency. The zero value makes everything worth nothing, and free.
type Prices struct {
	// AcceleratorHour is what an hour of one accelerator is worth.
	AcceleratorHour float64
	// WANGiB is what a GiB sent to another site costs, RemoteTiBHour a TiB that lies there for an hour.
	WANGiB, RemoteTiBHour float64
	// ReplicaTiBHour is what a TiB of temporary replicas costs for an hour.
	ReplicaTiBHour float64
	// StorageGiB is what a GiB that storage nodes read, verify and send for a making costs.
	StorageGiB float64
	// Entry is what one entry of the catalogue costs: a small file, written and removed.
	Entry float64
}

const (
	gib = 1 << 30
	tib = 1 << 40
)

// worth is what accelerator-seconds are worth. Products are rounded before they are added, so that all machines decide alike.
func (p Prices) worth(acceleratorSeconds float64) float64 {
	return float64(p.AcceleratorHour * acceleratorSeconds / 3600)
}

// ofCopy is what a copy of so many bytes costs that lies at a site for so long.
func (p Prices) ofCopy(bytes int64, lease time.Duration) float64 {
	sent := float64((p.WANGiB + p.StorageGiB) * float64(bytes) / gib)
	return sent + float64(p.RemoteTiBHour*float64(bytes)/tib*lease.Hours()) + p.Entry
}

// ofSources is what extra sources of a file cost that last so long.
func (p Prices) ofSources(bytes int64, lease time.Duration) float64 {
	made := float64(p.StorageGiB * float64(bytes) / gib)
	return made + float64(p.ReplicaTiBHour*float64(bytes)/tib*lease.Hours())
}
