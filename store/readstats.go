package store

// ReadStats counts what reads through a store cost since it was opened.
type ReadStats struct {
	// Asked are the bytes that callers asked for, Wire those that came from storage nodes, checksums and
	// what was read over included.
	Asked int64 `json:"asked_bytes"`
	Wire  int64 `json:"wire_bytes"`
	// Connections counts connections to storage nodes that were opened, Reused the reads that found one open.
	Connections int64 `json:"connections"`
	Reused      int64 `json:"connections_reused"`
	// Retries counts reads that were tried once more, by cause, such as "checksum" or "connect".
	Retries map[string]int64 `json:"retries,omitempty"`
	// HedgesWon and HedgesLost count reads that were asked of a second node because the first was slow, by
	// who answered first; HedgeBytes are the bytes that came twice.
	HedgesWon  int64 `json:"hedges_won"`
	HedgesLost int64 `json:"hedges_lost"`
	HedgeBytes int64 `json:"hedge_bytes"`
	// SameNode, SameRack and Remote are the asked bytes by where the replica was.
	SameNode int64 `json:"same_node_bytes"`
	SameRack int64 `json:"same_rack_bytes"`
	Remote   int64 `json:"remote_bytes"`
	// Calls counts calls of the service that knows files and locations (HDFS: the NameNode), by method.
	Calls map[string]int64 `json:"calls,omitempty"`
	// CallRetries counts those of them that were tried once more, by cause, such as "standby" or "unreachable".
	CallRetries map[string]int64 `json:"call_retries,omitempty"`
}

// Plus returns the sum of what two stores counted. It shares nothing with them.
func (s ReadStats) Plus(o ReadStats) ReadStats {
	s.Asked += o.Asked
	s.Wire += o.Wire
	s.Connections += o.Connections
	s.Reused += o.Reused
	s.HedgesWon += o.HedgesWon
	s.HedgesLost += o.HedgesLost
	s.HedgeBytes += o.HedgeBytes
	s.SameNode += o.SameNode
	s.SameRack += o.SameRack
	s.Remote += o.Remote
	s.Retries = sumOf(s.Retries, o.Retries)
	s.Calls = sumOf(s.Calls, o.Calls)
	s.CallRetries = sumOf(s.CallRetries, o.CallRetries)
	return s
}

func sumOf(a, b map[string]int64) map[string]int64 {
	if len(a)+len(b) == 0 {
		return nil
	}
	sum := make(map[string]int64, len(a)+len(b))
	for _, m := range []map[string]int64{a, b} {
		for k, n := range m {
			sum[k] += n
		}
	}
	return sum
}

// ReadCounter is implemented by stores that count what reads cost.
type ReadCounter interface {
	// ReadStats returns the counts now. The caller owns the maps. It is safe for concurrent use.
	ReadStats() ReadStats
}
