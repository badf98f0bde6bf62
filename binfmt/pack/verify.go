package pack

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/store"
)

// The kinds of findings.
const (
	FoundManifest = "manifest" // dataset.json breaks a rule
	FoundMissing  = "missing"  // a file is not there
	FoundSize     = "size"     // a data file has another size
	FoundChanged  = "changed"  // a data file that another program wrote is another one than was indexed
	FoundHeader   = "header"   // the header of a data file breaks a rule
	FoundIndex    = "index"    // an index is damaged, or another one
	FoundUUID     = "uuid"     // keys, lengths and checksums do not give the bin's uuid
	FoundOrder    = "order"    // keys do not ascend
	FoundLabel    = "label"    // a label is not the number of a class
	FoundShort    = "short"    // a part ends behind the end of its file
	FoundRead     = "read"     // the store cannot read a part
	FoundCRC      = "crc"      // a part's bytes are not those that were packed
	FoundSums     = "sums"     // the sums that were added to the dataset are damaged, or another one's
)

// Finding is one thing wrong with a dataset.
type Finding struct {
	Kind   string `json:"kind"`
	File   string `json:"file"`   // as its store calls it outside
	Sample int64  `json:"sample"` // -1: of no one sample
	Key    string `json:"key,omitempty"`
	Field  string `json:"field,omitempty"`
	Offset int64  `json:"offset"` // in File; -1: none
	Length int64  `json:"length,omitempty"`
	Want   string `json:"expected,omitempty"`
	Got    string `json:"found,omitempty"`
}

// String says it in one line.
func (f Finding) String() string {
	s := f.File + ": " + f.Kind
	if f.Sample >= 0 {
		s += fmt.Sprintf(": sample %d (%q)", f.Sample, f.Key)
	}
	if f.Field != "" {
		s += ", field " + f.Field
	}
	if f.Offset >= 0 {
		s += fmt.Sprintf(", offset %d, length %d", f.Offset, f.Length)
	}
	if f.Want != "" {
		s += ": expected " + f.Want
	}
	if f.Got != "" {
		s += ": found " + f.Got
	}
	return s
}

// VerifyOptions configure Verify. The zero value is usable.
type VerifyOptions struct {
	// Workers is how many reads run at the same time. Default: the number of processors, at least 4.
	Workers int
	// Checksum adds sums to a dataset that has parts without, if nothing is wrong with it: they are stored beside its manifest, and
	// whoever reads the dataset from then on compares with them.
	Checksum bool
	// Progress is called now and then, by one goroutine at a time. Default: nobody is told.
	Progress func(Progress)
}

// Checked says how much Verify looked at.
type Checked struct {
	Bins     int64 `json:"bins"`
	Samples  int64 `json:"samples"`
	Parts    int64 `json:"parts"`
	Bytes    int64 `json:"bytes"`    // of parts
	NoSums   int64 `json:"no_sums"`  // parts without a checksum, of which only the length is known to be right
	Summed   int64 `json:"summed"`   // parts that had none and have one now
	Findings int64 `json:"findings"` // how often report was called
}

// Verify reads all of a dataset and reports everything that is wrong with it: findings come in the
// order of bins and samples, from one goroutine at a time. The error says that it could not look
// (there is no dataset, ctx ended), never that it found something.
func Verify(ctx context.Context, st store.Store, dir string, o VerifyOptions, report func(Finding)) (Checked, error) {
	named := func(f Finding) {
		f.File = st.Address(f.File)
		report(f)
	}
	v := &verifier{st: st, dir: dir, report: named, workers: o.Workers, tell: o.Progress, add: o.Checksum}
	if v.workers <= 0 {
		v.workers = max(4, runtime.GOMAXPROCS(0))
	}
	err := v.run(ctx)
	return v.checked, err
}

type verifier struct {
	st      store.Store
	dir     string
	m       *binfmt.Manifest
	workers int
	tell    func(Progress)
	old     *binfmt.SumsReader // the sums that the dataset has; nil if it has none
	add     bool
	sums    *newSums // nil unless add

	mu       sync.Mutex
	report   func(Finding)
	progress Progress
	checked  Checked
	waiting  map[int][]Finding // of bins that are done, until all before them are
	next     int
}

func (v *verifier) run(ctx context.Context) error {
	name := path.Join(v.dir, binfmt.ManifestName)
	data, err := manifestBytes(ctx, v.st, name)
	if err != nil {
		return fmt.Errorf("pack.Verify: %w", err)
	}
	v.m, err = binfmt.ParseManifest(v.st.Address(name), data)
	if err != nil {
		v.report(Finding{Kind: FoundManifest, File: name, Sample: -1, Offset: -1, Got: err.Error()})
		v.checked.Findings++
		return nil
	}
	v.waiting = make(map[int][]Finding)
	v.progress = Progress{Phase: "verify"}
	for _, b := range v.m.Bins {
		v.progress.Total += b.Bytes
	}
	tmp, err := os.MkdirTemp("", "stepahead-verify-")
	if err != nil {
		return fmt.Errorf("pack.Verify: %w", err)
	}
	defer os.RemoveAll(tmp)
	if err := v.bins(ctx, tmp); err != nil {
		return fmt.Errorf("pack.Verify: %w", err)
	}
	return nil
}

// bins checks all bins. tmp is a folder for copies.
func (v *verifier) bins(ctx context.Context, tmp string) error {
	if err := v.openSums(ctx); err != nil {
		return err
	}
	if v.old != nil {
		defer v.old.Close()
	}
	done, err := v.collectIn(tmp)
	if err != nil {
		return err
	}
	defer done()
	together := min(v.workers, len(v.m.Bins))
	g, group := errgroup.WithContext(ctx)
	g.SetLimit(together)
	first := int64(0)
	ends := make([]ends, len(v.m.Bins))
	for i, b := range v.m.Bins {
		c := &binCheck{v: v, bin: b, place: i, first: first, tmp: tmp, readers: max(1, v.workers/together), ends: &ends[i]}
		first += b.Samples
		g.Go(func() error { return c.run(group) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	v.checkEnds(ends)
	return v.publish(ctx)
}

// ends are the first and last key of a bin.
type ends struct{ first, last string }

// checkEnds looks whether the keys ascend from bin to bin.
func (v *verifier) checkEnds(all []ends) {
	sample := int64(0)
	for i, b := range v.m.Bins {
		if i > 0 && b.Foreign == nil && v.m.Bins[i-1].Foreign == nil && all[i-1].last >= all[i].first && all[i].first != "" {
			v.checked.Findings++
			v.report(Finding{Kind: FoundOrder, File: path.Join(v.dir, b.IndexName()), Sample: sample, Key: all[i].first, Offset: -1,
				Want: fmt.Sprintf("a key after %q, the last one of the bin before", all[i-1].last)})
		}
		sample += b.Samples
	}
}

// done takes a bin's findings and reports what is next in order.
func (v *verifier) done(bin int, found []Finding) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.checked.Bins++
	v.waiting[bin] = found
	for {
		found, ok := v.waiting[v.next]
		if !ok {
			return
		}
		for _, f := range found {
			v.report(f)
		}
		v.checked.Findings += int64(len(found))
		delete(v.waiting, v.next)
		v.next++
	}
}

func (v *verifier) count(c Checked, bytes int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.checked.Samples += c.Samples
	v.checked.Parts += c.Parts
	v.checked.Bytes += c.Bytes
	v.checked.NoSums += c.NoSums
	v.progress.Done += bytes
	if v.tell != nil {
		v.tell(v.progress)
	}
}

// binCheck verifies one bin.
type binCheck struct {
	v       *verifier
	bin     binfmt.Bin
	place   int
	first   int64 // number of its first sample
	tmp     string
	readers int
	ends    *ends
	newSums []byte // that are added; nil if none are

	mu    sync.Mutex
	found []Finding
}

func (c *binCheck) add(f Finding) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.found = append(c.found, f)
}

// file makes a finding that concerns a file as a whole.
func (c *binCheck) file(kind, name, want, got string) {
	c.add(Finding{Kind: kind, File: name, Sample: -1, Offset: -1, Want: want, Got: got})
}

func (c *binCheck) run(ctx context.Context) error {
	c.collect()
	if err := errors.Join(c.check(ctx), c.keep()); err != nil {
		return err
	}
	slices.SortStableFunc(c.found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Sample, b.Sample), cmp.Compare(a.Offset, b.Offset))
	})
	c.v.done(c.place, c.found)
	return nil
}

func (c *binCheck) check(ctx context.Context) error {
	if c.bin.IsFolder() {
		return c.checkFolder(ctx)
	}
	data := path.Join(c.v.dir, c.bin.DataName())
	f, err := c.v.st.Open(ctx, data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.file(FoundMissing, data, "", "")
	case err != nil:
		return err
	default:
		defer f.Close()
		if err := c.checkHead(ctx, data, f); err != nil {
			return err
		}
	}
	x, err := c.openIndex(ctx)
	if err != nil || x == nil {
		return err
	}
	defer x.Close()
	if deep, ok := x.(interface{ Check(context.Context) error }); ok { // a container's own index
		if err := deep.Check(ctx); err != nil && ctx.Err() == nil {
			c.file(FoundIndex, path.Join(c.v.dir, c.bin.IndexName()), "", err.Error())
		}
	}
	if x, err = c.withSums(ctx, x); err != nil {
		return err
	}
	return c.rows(x, func(parts []rowPart) error {
		if f == nil {
			return ctx.Err()
		}
		return c.parts(ctx, x, f, parts)
	})
}

func (c *binCheck) checkHead(ctx context.Context, name string, f store.File) error {
	if c.bin.Foreign != nil {
		c.checkForeign(name, f)
		return nil
	}
	if f.Size() != c.bin.Bytes {
		c.file(FoundSize, name, fmt.Sprintf("%d bytes", c.bin.Bytes), fmt.Sprintf("%d bytes", f.Size()))
	}
	head := make([]byte, min(f.Size(), binfmt.HeaderSize))
	if err := f.ReadRanges(ctx, []store.Range{{Off: 0, Buf: head}}); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.file(FoundRead, name, "", err.Error())
		return nil
	}
	if err := binfmt.CheckHeader(c.v.st.Address(name), head, c.bin); err != nil {
		c.file(FoundHeader, name, "", err.Error())
	}
	return nil
}

// checkForeign says what makes a data file another one than was indexed.
func (c *binCheck) checkForeign(name string, f store.File) {
	if got := string(f.Identity()); got != c.bin.Foreign.Identity {
		c.file(FoundChanged, name, c.bin.Foreign.Identity, got)
	}
	if f.Size() != c.bin.Bytes {
		c.file(FoundSize, name, fmt.Sprintf("%d bytes", c.bin.Bytes), fmt.Sprintf("%d bytes", f.Size()))
	}
}

// openIndex checks the index's digest and maps it: in place where the store's files are local files,
// else from a copy. It returns nil if there is no usable index, which is then a finding.
func (c *binCheck) openIndex(ctx context.Context) (binfmt.BinIndex, error) {
	name := path.Join(c.v.dir, c.bin.IndexName())
	local, isLocal := "", false
	if l, ok := c.v.st.(store.Localizer); ok {
		local, isLocal = l.LocalPath(name)
	}
	digest, err := c.digest(ctx, name, &local, isLocal)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.file(FoundMissing, name, "", "")
		return nil, nil
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		c.file(FoundRead, name, "", err.Error())
		return nil, nil
	case digest != c.bin.IndexSHA256:
		c.file(FoundIndex, name, "SHA-256 "+c.bin.IndexSHA256, "SHA-256 "+digest)
	}
	x, err := binfmt.OpenBin(binfmt.LocalIndex{Path: local}, c.v.m, c.place)
	if !isLocal {
		os.Remove(local) // the mapping lives on
	}
	if err != nil {
		c.file(FoundIndex, name, "", err.Error())
		return nil, nil
	}
	return x, nil
}

// digest reads a whole file and, unless it is a local one, copies it to where *local then says.
func (c *binCheck) digest(ctx context.Context, name string, local *string, isLocal bool) (string, error) {
	f, err := c.v.st.Open(ctx, name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	out := io.Writer(sum)
	if !isLocal {
		tmp, err := os.CreateTemp(c.tmp, "index-")
		if err != nil {
			return "", err
		}
		defer tmp.Close()
		*local = tmp.Name()
		out = io.MultiWriter(sum, tmp)
	}
	buf := make([]byte, min(f.Size(), 8<<20))
	for off := int64(0); off < f.Size(); off += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), f.Size()-off)]
		if err := f.ReadRanges(ctx, []store.Range{{Off: off, Buf: buf}}); err != nil {
			return "", err
		}
		if _, err := out.Write(buf); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
