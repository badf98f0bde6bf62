package loader

import (
	"fmt"
)

// BadSampleError names a sample whose content is bad: its checksum is wrong on every replica, or it
// cannot be decoded. It stops the run under OnBadRaise, and is what Stats.Substitutions list.
type BadSampleError struct {
	Sample uint64 `json:"sample"`
	Key    string `json:"key"`
	Field  string `json:"field"`
	Bin    string `json:"bin"`
	Offset int64  `json:"offset"`
	Length int64  `json:"length"`
	Reason string `json:"reason"`
}

func (e *BadSampleError) Error() string {
	return fmt.Sprintf("sample %d (key %q), field %q, %s at offset %d, %d bytes: %s: repair the dataset, or use on_bad=\"substitute\"",
		e.Sample, e.Key, e.Field, e.Bin, e.Offset, e.Length, e.Reason)
}
