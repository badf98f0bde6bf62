package store_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/storetest"
)

// faulty is a folder with /d/a.bin, of 1000 bytes, and the faults told.
func faulty(t testing.TB, faults string) (store.Store, []byte) {
	t.Helper()
	parsed, err := store.ParseFaults(faults)
	must(t, err)
	s := newCluster(t)
	data := random(1000)
	storetest.Put(t, s, "/d/a.bin", data)
	return store.Faults(summing{s}, parsed), data
}

func TestFaultNth(t *testing.T) {
	for faults, want := range map[string]string{
		"fail(op=stat)":                             "xxxxxx",
		"fail(op=stat, nth=3)":                      "..x...",
		"fail(op=stat, nth=2, count=3)":             ".xxx..",
		"fail(op=stat, nth=1); fail(op=stat,nth=4)": "x..x..",
		"fail(op=open)":                             "......",
		"fail()":                                    "xxxxxx",
		"fail(path=*.bin)":                          "xxxxxx",
		"fail(path=a.*)":                            "xxxxxx",
		"fail(path=/d/*.bin)":                       "xxxxxx",
		"fail(path=/*.bin)":                         "......",
		"fail(path=*.arrow)":                        "......",
		"fail(node=dn1)":                            "......",
		"fail(op=list, nth=1)\n#x\nfail(op=stat, nth=1)": "x.....",
	} {
		s, _ := faulty(t, faults)
		got := ""
		for range 6 {
			if _, err := s.Stat(t.Context(), "/d/a.bin"); err != nil {
				got += "x"
			} else {
				got += "."
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s", faults, got, want)
		}
	}
}

func TestFaultErrors(t *testing.T) {
	for kind, want := range map[string]error{
		"unavailable": store.ErrUnavailable, "permanent": fs.ErrInvalid, "permission": fs.ErrPermission, "not-found": fs.ErrNotExist,
		"corrupt": store.ErrCorrupt, "identity": store.ErrIdentity, "full": syscall.ENOSPC,
		"quota": syscall.EDQUOT, "unsupported": errors.ErrUnsupported,
	} {
		s, _ := faulty(t, "fail(op=open, err="+kind+")")
		_, err := s.Open(t.Context(), "/d/a.bin")
		if !errors.Is(err, want) || !strings.Contains(err.Error(), "err="+kind) || !strings.Contains(err.Error(), "/d/a.bin") {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// Every operation can be struck, so that none bypasses the decorator.
func TestFaultEveryOperation(t *testing.T) {
	for op, do := range map[string]func(s store.Store) error{
		"open":      func(s store.Store) error { _, err := s.Open(t.Context(), "/d/a.bin"); return err },
		"stat":      func(s store.Store) error { _, err := s.Stat(t.Context(), "/d/a.bin"); return err },
		"list":      func(s store.Store) error { _, err := s.List(t.Context(), "/d"); return err },
		"create":    func(s store.Store) error { _, err := s.Create(t.Context(), "/x"); return err },
		"rename":    func(s store.Store) error { return s.Rename(t.Context(), "/d/a.bin", "/x") },
		"remove":    func(s store.Store) error { return s.Remove(t.Context(), "/d/a.bin") },
		"locate":    func(s store.Store) error { _, err := s.Locate(t.Context(), "/d/a.bin", 0, 1); return err },
		"replicate": func(s store.Store) error { return s.(store.Replicator).SetReplication(t.Context(), "/d/a.bin", 1) },
		"attribute": func(s store.Store) error {
			_, _, err := s.(store.Attributer).Attribute(t.Context(), "/d/a.bin", "stepahead.x")
			return err
		},
		"set-attribute": func(s store.Store) error {
			return s.(store.Attributer).SetAttribute(t.Context(), "/d/a.bin", "stepahead.x", []byte("x"))
		},
		"policy": func(s store.Store) error {
			_, err := s.(store.StoragePolicer).StoragePolicy(t.Context(), "/d/a.bin")
			return err
		},
		"set-policy": func(s store.Store) error {
			return s.(store.StoragePolicer).SetStoragePolicy(t.Context(), "/d/a.bin", "COLD")
		},
		"access": func(s store.Store) error { _, err := s.(store.Protector).Access(t.Context(), "/d/a.bin"); return err },
		"protect": func(s store.Store) error {
			return s.(store.Protector).Protect(t.Context(), "/d/a.bin", store.Access{Mode: 0o600})
		},
		"checksum": func(s store.Store) error {
			_, err := storetest.Open(t, s, "/d/a.bin").(store.Checksummer).CRC32C(t.Context())
			return err
		},
		"nodes": func(s store.Store) error { _, err := s.(store.NodeLister).Nodes(t.Context()); return err },
		"read": func(s store.Store) error {
			_, err := read(t.Context(), storetest.Open(t, s, "/d/a.bin"), 0, 1)
			return err
		},
		"write": func(s store.Store) error { return writeFile(s, "/x") },
		"close": func(s store.Store) error { return writeFile(s, "/x") },
	} {
		s, _ := faulty(t, "fail(op="+op+")")
		if err := do(s); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: %v", op, err)
		}
		if infos, err := s.List(t.Context(), "/"); op != "list" && (err != nil || len(infos) != 1) {
			t.Errorf("%s left %+v, %v", op, infos, err)
		}
	}
}

func writeFile(s store.Store, name string) error {
	w, err := s.Create(context.Background(), name)
	if err != nil {
		return err
	}
	defer w.Abort()
	if _, err := w.Write([]byte("0123456789")); err != nil {
		return err
	}
	return w.Close()
}

func TestFaultCorrupt(t *testing.T) {
	s, data := faulty(t, "corrupt(op=read, path=*.bin, offset=500)")
	f := storetest.Open(t, s, "/d/a.bin")
	bad := bytes.Clone(data)
	bad[500] ^= 0xff
	for _, c := range [][2]int{{0, 1000}, {500, 1}, {0, 500}, {501, 10}, {490, 11}} {
		got, err := read(t.Context(), f, int64(c[0]), c[1])
		if err != nil || !bytes.Equal(got, bad[c[0]:c[0]+c[1]]) {
			t.Errorf("[%d, +%d): wrong, %v", c[0], c[1], err)
		}
	}
}

// Through the decorator: one replica is wrong, the other is not.
func TestFaultCorruptOneReplica(t *testing.T) {
	s, data := faulty(t, "corrupt(offset=500, node=dn2)")
	f := storetest.Open(t, s, "/d/a.bin")
	for node, wrong := range map[string]bool{"dn1": false, "dn2": true} {
		buf := make([]byte, 1000)
		err := f.(store.ReplicaReader).ReadReplica(t.Context(), node, []store.Range{{Buf: buf}})
		if err != nil || bytes.Equal(buf, data) == wrong {
			t.Errorf("%s: wrong bytes %v, %v", node, !bytes.Equal(buf, data), err)
		}
	}
}

func TestFaultShort(t *testing.T) {
	s, data := faulty(t, "short(op=read, nth=1); short(op=write)")
	f := storetest.Open(t, s, "/d/a.bin")
	got, err := read(t.Context(), f, 0, 1000)
	if !errors.Is(err, io.ErrUnexpectedEOF) || store.ClassOf(err) != store.Retryable || !bytes.Equal(got[:500], data[:500]) || bytes.Equal(got, data) {
		t.Errorf("read: %v", err)
	}
	if got, err := read(t.Context(), f, 0, 1000); err != nil || !bytes.Equal(got, data) {
		t.Errorf("the second read: %v", err)
	}
	w, err := s.Create(t.Context(), "/w")
	must(t, err)
	defer w.Abort()
	if n, err := w.Write(data); n != 500 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("Write: %d, %v", n, err)
	}
}

func TestFaultDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faults, err := store.ParseFaults("delay(op=stat, ms=250)")
		must(t, err)
		s := store.Faults(&scripted{}, faults)
		start := time.Now()
		_, err = s.Stat(t.Context(), "/f")
		if took := time.Since(start); took != 250*time.Millisecond || err != nil {
			t.Errorf("took %v, %v", took, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := s.Stat(ctx, "/f"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a cancelled delay: %v", err)
		}
	})
}

func TestParseFaultsRefuses(t *testing.T) {
	for text, says := range map[string]string{
		"fail":                             "expected '('",
		"fail(":                            "key",
		"fail(op=read":                     "expected ','",
		"fail(op)":                         "'='",
		"fail(op=read,)":                   "key",
		"fail(op=read op=stat)":            "expected ','",
		"fail(op=read, op=stat)":           "twice",
		"fail(op=)":                        "no value",
		"fail() delay(ms=1)":               "expected ';'",
		"break(op=read)":                   "kind",
		"fail(op=dance)":                   "op=dance",
		"fail(colour=red)":                 "colour",
		"fail(nth=x)":                      "nth=x",
		"fail(nth=-1)":                     "negative",
		"fail(count=2)":                    "needs nth",
		"fail(err=sad)":                    "err=sad",
		"fail(ms=5)":                       "ms",
		"fail(offset=5)":                   "offset",
		"delay(op=read)":                   "ms",
		"delay(ms=99999999999)":            "day",
		"corrupt(op=write)":                "corrupt",
		"corrupt(offset=-1)":               "negative",
		"short(op=stat)":                   "short",
		"short(err=full)":                  "err",
		"fail(path=[)":                     "pattern",
		`fail(path="open)`:                 "does not end",
		"fail()\n\nfail(x=1)":              "line 3",
		strings.Repeat("fail()\n", 64<<10): "more than",
	} {
		if faults, err := store.ParseFaults(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.30q: %v, %v; want an error with %q", text, faults, err, says)
		}
	}
	for _, text := range []string{"", "\n\n", "# nothing", "fail() # why", "  fail( op = read , nth = 1 ) ;; "[:31]} {
		if _, err := store.ParseFaults(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestFaultRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := store.Fault{Kind: rapid.SampledFrom([]string{"fail", "delay", "corrupt", "short"}).Draw(t, "kind")}
		f.Path = rapid.OneOf(rapid.Just(""), rapid.String(), rapid.SampledFrom([]string{"*.bin", "/a b/*", `q"(,)`, "#=;\\\\\n"})).Draw(t, "path")
		f.Node = rapid.SampledFrom([]string{"", "dn1", "dn-2.x", "a,b"}).Draw(t, "node")
		if f.Nth = rapid.IntRange(0, 5).Draw(t, "nth"); f.Nth > 0 {
			f.Count = rapid.IntRange(0, 5).Draw(t, "count")
		}
		switch f.Kind {
		case "fail":
			f.Err = rapid.SampledFrom([]string{"", "full", "identity"}).Draw(t, "err")
			f.Op = rapid.SampledFrom([]string{"", "stat", "replicate"}).Draw(t, "op")
		case "delay":
			f.Delay = time.Duration(rapid.Int64Range(1, 1e6).Draw(t, "ms")) * time.Millisecond
		case "corrupt":
			f.Offset = rapid.Int64Min(0).Draw(t, "offset")
		}
		if f.Validate() != nil {
			t.Skip("not a pattern")
		}
		got, err := store.ParseFaults(f.String() + ";" + f.String())
		if err != nil || len(got) != 2 || got[0] != f || got[1] != f {
			t.Fatalf("%s became %v, %v", f, got, err)
		}
	})
}

func FuzzParseFaults(f *testing.F) {
	for _, s := range []string{
		"fail(op=read, path=*.bin, nth=3)", "delay(op=open, ms=250, nth=2, count=5)", "corrupt(op=read, path=*.bin, offset=4096, node=dn1)",
		"short(op=read, nth=1); short(op=write)", "# c\nfail(err=full)\r\n", `fail(path="a\"b")`, "fail(path=\"\xff\")", "fail(nth=99999999999999999999)", "((,)",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		faults, err := store.ParseFaults(text)
		if err != nil {
			return
		}
		for _, one := range faults {
			again, err := store.ParseFaults(one.String())
			if err != nil || len(again) != 1 || again[0] != one {
				t.Fatalf("%#v is written %s and read %#v, %v", one, one, again, err)
			}
		}
	})
}
