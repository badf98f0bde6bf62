package hdfstest

import "fmt"

// Users that every cluster knows. Under Kerberos each has a keytab.
const (
	Superuser = "hdfs"     // runs the daemons and may do everything
	User      = "trainer"  // owns the folders and files that tests make
	Intruder  = "intruder" // owns nothing
	Agent     = "agent"    // a service account that may act for any user
)

// Options say what a cluster is made of. The zero value is three DataNodes on three racks and one NameNode, all in one
// JVM, without Kerberos.
type Options struct {
	// DataNodes is how many there are. Default 3.
	DataNodes int
	// Racks are the racks of the DataNodes in turn, such as "/a", "/b". Default: a rack each, /rack0 and so on.
	Racks []string
	// Hosts are the names of the DataNodes' hosts in turn. Default: dn0.test and so on, which nothing resolves; all
	// listen on 127.0.0.1.
	Hosts []string
	// NameNodes is 1 (default), or 2: one nameservice with an active and a standby NameNode.
	NameNodes int
	// Storages is how many folders of blocks each DataNode has, when all are in one JVM. Default 1.
	Storages int
	// StorageTypes are the types of each DataNode's folders, for DataNodes in turn, such as {"DISK", "ARCHIVE"}, instead of Storages; when all are
	// in one JVM. Default: folders of type DISK.
	StorageTypes [][]string
	// Capacities, when given, are the bytes of each folder of blocks, for DataNodes in turn; when all are in one JVM. Default: all folders share this
	// machine's disk, so that no DataNode has more room than another.
	Capacities []int64
	// OneJVMEach gives each DataNode a process of its own, for signals and for CPU time: three times the memory and CPU.
	OneJVMEach bool
	// DiskBytes, when not 0, is the size of each DataNode's disk. It needs OneJVMEach, and root for a file system of its
	// own, which ends with the cluster and which the cluster alone sees: Corrupt does not reach it.
	DiskBytes int64
	// Kerberos, when not empty, makes the cluster secure; it is the protection of RPC and of data transfer:
	// "authentication", "integrity" or "privacy".
	Kerberos string
	// TicketSeconds is the life of a Kerberos ticket. Default: a day.
	TicketSeconds int
	// Encrypt turns on dfs.encrypt.data.transfer.
	Encrypt bool
	// Site are further settings of Hadoop, for servers and clients, over all others.
	Site map[string]string
	// JVM are further flags for the JVMs, after our own: 512 MiB of heap, the serial collector, the first compiler only.
	JVM []string
}

func (o Options) withDefaults() Options {
	if o.DataNodes == 0 {
		o.DataNodes = 3
	}
	if o.NameNodes == 0 {
		o.NameNodes = 1
	}
	if o.Storages == 0 {
		o.Storages = 1
	}
	for _, types := range o.StorageTypes {
		o.Storages = max(o.Storages, len(types))
	}
	o.Racks = cycle(o.Racks, o.DataNodes, "/rack%d")
	o.Hosts = cycle(o.Hosts, o.DataNodes, "dn%d.test")
	return o
}

// cycle returns n names: those given, again and again, or ones made from the pattern.
func cycle(given []string, n int, pattern string) []string {
	names := make([]string, n)
	for i := range names {
		if len(given) > 0 {
			names[i] = given[i%len(given)]
		} else {
			names[i] = fmt.Sprintf(pattern, i)
		}
	}
	return names
}

// spec is what the JVM reads first; Spec.java has the same fields.
type spec struct {
	Dir           string            `json:"dir"`
	DataNodes     int               `json:"dataNodes"`
	NameNodes     int               `json:"nameNodes"`
	Storages      int               `json:"storages"`
	StorageTypes  [][]string        `json:"storageTypes"`
	Capacities    []int64           `json:"capacities"`
	Racks         []string          `json:"racks"`
	Hosts         []string          `json:"hosts"`
	Kerberos      string            `json:"kerberos"`
	TicketSeconds int               `json:"ticketSeconds"`
	Encrypt       bool              `json:"encrypt"`
	Java          []string          `json:"java"`
	DiskBytes     int64             `json:"diskBytes"`
	Site          map[string]string `json:"site"`
}

func (o Options) spec(dir string, java []string) spec {
	s := spec{
		Dir: dir, DataNodes: o.DataNodes, NameNodes: o.NameNodes, Storages: o.Storages, Racks: o.Racks, Hosts: o.Hosts,
		Kerberos: o.Kerberos, TicketSeconds: o.TicketSeconds, Encrypt: o.Encrypt, Java: []string{}, StorageTypes: [][]string{}, Capacities: []int64{},
		DiskBytes: o.DiskBytes, Site: map[string]string{},
	}
	if o.OneJVMEach {
		s.Java = java
	}
	if o.StorageTypes != nil {
		s.StorageTypes = o.StorageTypes
	}
	if o.Capacities != nil {
		s.Capacities = o.Capacities
	}
	if o.Site != nil {
		s.Site = o.Site
	}
	return s
}
