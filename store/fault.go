package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Fault is one thing that Faults makes go wrong, as ParseFaults reads it and String writes it.
type Fault struct {
	// Kind is "fail" (the call fails without being made), "delay" (it waits first), "corrupt" (a read
	// succeeds with one wrong byte) or "short" (a read or write does half of its work and fails).
	Kind string
	// Op is the operation that it strikes: open, stat, list, create, write, close, rename, remove, locate,
	// read, replicate, attribute, set-attribute, policy, set-policy, access, protect, nodes or checksum. Empty: any; for
	// corrupt and short, those that they can strike.
	Op string
	// Path is a pattern of path.Match for the name; one without a slash is for the last part of the name.
	// Empty: any.
	Path string
	// Node strikes only reads from that replica (ReadReplica). Empty: any read.
	Node string
	// Nth is the first matching call that is struck, from 1; Count is how many are struck in a row. Nth 0:
	// every one. Count 0: one if Nth is given. The calls of each Fault are counted by itself.
	Nth, Count int
	// Delay of kind delay, in whole milliseconds.
	Delay time.Duration
	// Offset is the byte in the file that kind corrupt inverts. Only reads that cover it match.
	Offset int64
	// Err is what kind fail returns: unavailable (the default), permanent, permission, not-found, corrupt,
	// identity, full (no space left), quota or unsupported.
	Err string
}

// faultErrors are the values of err= in the language of faults.
var faultErrors = map[string]error{
	"unavailable": ErrUnavailable, "permanent": fs.ErrInvalid, "permission": fs.ErrPermission,
	"not-found": fs.ErrNotExist, "corrupt": ErrCorrupt, "identity": ErrIdentity, "full": syscall.ENOSPC,
	"quota": syscall.EDQUOT, "unsupported": errors.ErrUnsupported,
}

// Faults makes calls of s go wrong as told; see ParseFaults for the language. All faults that match a call
// strike it, delays first. It hides LocalPath, which would go around it. A Fault that Validate refuses
// makes it panic.
func Faults(s Store, faults []Fault) Store {
	all := make([]*armed, len(faults))
	for i, f := range faults {
		if err := f.Validate(); err != nil {
			panic(err)
		}
		all[i] = &armed{Fault: f}
	}
	return &hooked{inner: s, hidesLocal: true, around: func(ctx context.Context, c *call, do func() error) error {
		var struck []*armed
		for _, f := range all {
			if f.strikes(c) {
				struck = append(struck, f)
			}
		}
		return suffer(ctx, s, c, struck, do)
	}}
}

// armed is a Fault and its count of matching calls.
type armed struct {
	Fault
	seen atomic.Int64
}

func (f *armed) strikes(c *call) bool {
	if !f.matches(c) {
		return false
	}
	n := f.seen.Add(1)
	if f.Nth == 0 {
		return true
	}
	return n >= int64(f.Nth) && n < int64(f.Nth)+int64(max(f.Count, 1))
}

func (f *Fault) matches(c *call) bool {
	if f.Op != "" && f.Op != c.op.String() || f.Node != "" && f.Node != c.node {
		return false
	}
	if f.Path != "" {
		name := c.name
		if !strings.Contains(f.Path, "/") {
			name = path.Base(name)
		}
		if ok, err := path.Match(f.Path, name); !ok || err != nil {
			return false
		}
	}
	switch f.Kind {
	case "corrupt":
		return covers(c.ranges, f.Offset)
	case "short":
		return c.op == opRead || c.op == opWrite
	}
	return true
}

func covers(ranges []Range, off int64) bool {
	for _, r := range ranges {
		if off >= r.Off && off-r.Off < int64(len(r.Buf)) {
			return true
		}
	}
	return false
}

func suffer(ctx context.Context, s Store, c *call, struck []*armed, do func() error) error {
	for _, f := range struck {
		if f.Kind == "delay" {
			if err := Sleep(ctx, f.Delay); err != nil {
				return f.wrap(s, c, err)
			}
		}
	}
	for _, f := range struck {
		switch f.Kind {
		case "fail":
			return f.wrap(s, c, f.err())
		case "short":
			return f.wrap(s, c, half(c, do))
		}
	}
	err := do()
	if err != nil {
		return err
	}
	for _, f := range struck {
		if f.Kind == "corrupt" {
			invert(c.ranges, f.Offset)
		}
	}
	return nil
}

func (f *Fault) err() error {
	if f.Err == "" {
		return ErrUnavailable
	}
	return faultErrors[f.Err]
}

func (f *Fault) wrap(s Store, c *call, err error) error {
	return fmt.Errorf("store.Faults %s %s: %s: %w", c.op, s.Address(c.name), f, err)
}

// half does half of a write, or all of a read and spoils the second half of each buffer: what a broken
// connection leaves behind. Its error is of class Retryable.
func half(c *call, do func() error) error {
	c.data, c.part = c.data[:len(c.data)/2], c.part[:len(c.part)/2]
	if err := do(); err != nil {
		return err
	}
	for _, r := range c.ranges {
		clear(r.Buf[len(r.Buf)/2:])
	}
	return io.ErrUnexpectedEOF
}

func invert(ranges []Range, off int64) {
	for _, r := range ranges {
		if i := off - r.Off; i >= 0 && i < int64(len(r.Buf)) {
			r.Buf[i] ^= 0xff
		}
	}
}
