package binfmt

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// memberOf makes a dataset of one media field whose bins have so many samples; the key of each tells both.
func memberOf(t *testing.T, name string, bins ...int) Member {
	t.Helper()
	dir := t.TempDir()
	fields := []Field{{Name: "image", Kind: Media}, {Name: "label", Kind: Int64}}
	m := &Manifest{Format: Format, Fields: fields}
	for b, n := range bins {
		var index bytes.Buffer
		var uuid [16]byte
		w, err := NewIndexWriter(&index, fields, uuid)
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			row := Row{
				Key:   fmt.Sprintf("%s/%d/%04d", name, b, i),
				Parts: []Part{{Extent: Extent{Off: HeaderSize + 64*int64(i), Len: 10, HasCRC: true}, Type: "image/jpeg"}}, Scalars: []Value{{Kind: Int64, Int: int64(i)}},
			}
			if err := w.Append(row); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(index.Bytes())
		bin := Bin{Name: fmt.Sprintf("bin-%d", b), UUID: hex.EncodeToString(uuid[:]), Samples: int64(n), Bytes: HeaderSize + 64*int64(n), IndexSHA256: hex.EncodeToString(sum[:])}
		if err := os.WriteFile(filepath.Join(dir, bin.IndexName()), index.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		m.Bins = append(m.Bins, bin)
	}
	d := NewDataset(m, func(_ context.Context, bin int) (LocalIndex, error) {
		return LocalIndex{Path: filepath.Join(dir, m.Bins[bin].IndexName())}, nil
	})
	t.Cleanup(func() { _ = d.Close() })
	return Member{Name: name, Data: d}
}

// TestUnionNumbers: every number is one sample of one member, in order, and finds its part, scalar and key.
func TestUnionNumbers(t *testing.T) {
	members := []Member{memberOf(t, "a", 3, 2), memberOf(t, "b", 1), memberOf(t, "c", 4, 1, 2)}
	u := NewUnion(members)
	if u.Samples() != 13 {
		t.Fatalf("%d samples", u.Samples())
	}
	var number uint64
	bins := 0
	for i, m := range members {
		for b, bin := range m.Data.Manifest().Bins {
			if member, own := u.Bin(bins); member != i || own != b {
				t.Errorf("bin %d is %d of %d, want %d of %d", bins, own, member, b, i)
			}
			for row := range bin.Samples {
				checkUnionSample(t, u, number, i, bins, fmt.Sprintf("%s/%d/%04d", m.Name, b, row), row)
				number++
			}
			bins++
		}
	}
	if _, _, err := u.Own(number); !errors.Is(err, ErrNoSample) {
		t.Errorf("sample %d: %v", number, err)
	}
	if _, err := u.Part(t.Context(), number, "image"); !errors.Is(err, ErrNoSample) {
		t.Errorf("part of sample %d: %v", number, err)
	}
}

func checkUnionSample(t *testing.T, u *Union, number uint64, member, bin int, key string, row int64) {
	t.Helper()
	m, own, err := u.Own(number)
	if err != nil || m != member || u.Number(m, own) != number {
		t.Fatalf("sample %d is %d of member %d (%v), want member %d", number, own, m, err, member)
	}
	found, err := u.Find(number)
	p, partErr := u.Part(t.Context(), number, "image")
	v, scalarErr := u.Scalar(t.Context(), number, "label")
	k, keyErr := u.Key(t.Context(), number)
	if err := errors.Join(err, partErr, scalarErr, keyErr); err != nil {
		t.Fatalf("sample %d: %v", number, err)
	}
	if found != bin || p.Bin != bin || p.Off != HeaderSize+64*row || v.Int != row || k != key {
		t.Errorf("sample %d: bin %d, part %+v, label %d, key %q; want bin %d, row %d, key %q", number, found, p, v.Int, k, bin, row, key)
	}
}

// TestUnionIdentity: one dataset without a name is itself; else names, order and contents count.
func TestUnionIdentity(t *testing.T) {
	a, b := memberOf(t, "", 3), memberOf(t, "", 4)
	if NewUnion([]Member{a}).Identity() != a.Data.Manifest().Identity() {
		t.Error("one dataset without a name has an identity that is not its own")
	}
	one, two := a.Data.Manifest().Identity(), b.Data.Manifest().Identity()
	want := sha256.Sum256([]byte("stepahead union 1\n\x01\x00\x00\x00a" + string(one[:]) + "\x01\x00\x00\x00b" + string(two[:])))
	a.Name, b.Name = "a", "b"
	if got := NewUnion([]Member{a, b}).Identity(); got != want {
		t.Errorf("identity %x, want %x", got, want)
	}
	both := NewUnion([]Member{a, b})
	alone := UnionIdentity([]string{"a"}, [][32]byte{one})
	if !both.BeganAs(want, 2) || !both.BeganAs(alone, 1) || both.BeganAs(alone, 2) || both.BeganAs(want, 3) || both.BeganAs(want, 0) {
		t.Error("which unions it continues")
	}
	seen := map[[32]byte]string{want: "a b"}
	for what, id := range map[string][32]byte{
		"b a": UnionIdentity([]string{"b", "a"}, [][32]byte{two, one}), "named": UnionIdentity([]string{"a"}, [][32]byte{one}),
		"swapped": UnionIdentity([]string{"a", "b"}, [][32]byte{two, one}), "joined": UnionIdentity([]string{"ab", ""}, [][32]byte{one, two}),
	} {
		if other, twice := seen[id]; twice {
			t.Errorf("%s and %s have one identity", what, other)
		}
		seen[id] = what
	}
}
