package ranges

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// want makes a Want without a file behind it.
func want(file int, off int64, n int) Want { return Want{File: file, Off: off, Dst: make([]byte, n)} }

// The cases of range joining, with small numbers: gap 10, over-read 2, reads of 100 to 400 bytes. Small lets all short
// reads have any holes, so lengths are in units of it where that matters.
func TestJoining(t *testing.T) {
	const u = Small
	limits := Limits{Gap: 10 * u, MinRead: 100 * u, MaxRead: 400 * u, Memory: 400 * u, InFlight: 1}
	for name, c := range map[string]struct {
		wants []Want
		reads string // file:[off,end) in units, in order
	}{
		"none":                      {nil, "[]"},
		"empty ones":                {[]Want{want(0, 5*u, 0), want(3, 0, 0)}, "[]"},
		"one":                       {[]Want{want(0, 5*u, 3*u)}, "[0:5-8]"},
		"touching":                  {[]Want{want(0, 0, 3*u), want(0, 3*u, 2*u)}, "[0:0-5]"},
		"not in order":              {[]Want{want(0, 3*u, 2*u), want(0, 0, 3*u)}, "[0:0-5]"},
		"a hole within the gap":     {[]Want{want(0, 0, 8*u), want(0, 18*u, 8*u)}, "[0:0-26]"},
		"a hole beyond the gap":     {[]Want{want(0, 0, 80*u), want(0, 91*u, 80*u)}, "[0:0-80 0:91-171]"},
		"a hole larger than both":   {[]Want{want(0, 0, u), want(0, 4*u, u)}, "[0:0-1 0:4-5]"},
		"paid by the next":          {[]Want{want(0, 0, u), want(0, 9*u, 50*u)}, "[0:0-59]"},
		"paid by one further on":    {[]Want{want(0, 0, u), want(0, 5*u, u), want(0, 10*u, 50*u)}, "[0:0-60]"},
		"any holes in a small read": {[]Want{want(0, 0, 1), want(0, u/2, 1), want(0, u-1, 1)}, "[0:0-1]"},
		"overlapping":               {[]Want{want(0, 0, 10*u), want(0, 5*u, 10*u)}, "[0:0-15]"},
		"one inside another":        {[]Want{want(0, 0, 10*u), want(0, 5*u, 2*u), want(0, 9*u, 3*u)}, "[0:0-12]"},
		"twice the same":            {[]Want{want(0, 5*u, 10*u), want(0, 5*u, 10*u)}, "[0:5-15]"},
		"two files":                 {[]Want{want(1, 0, u), want(0, u, u)}, "[0:1-2 1:0-1]"},
		"a large one is cut":        {[]Want{want(0, 0, 1000*u)}, "[0:0-250 0:250-500 0:500-750 0:750-1000]"},
		"a short rest is joined":    {[]Want{want(0, 0, 330*u)}, "[0:0-100 0:100-200 0:200-330]"},
		"files take turns":          {[]Want{want(0, 0, 200*u), want(1, 0, 200*u)}, "[0:0-100 1:0-100 0:100-200 1:100-200]"},
		"the longer one oftener":    {[]Want{want(0, 0, 100*u), want(1, 0, 300*u)}, "[1:0-100 0:0-100 1:100-200 1:200-300]"},
	} {
		t.Run(name, func(t *testing.T) {
			got := []string{}
			for _, r := range NewPlan(c.wants, limits).Requests {
				got = append(got, fmt.Sprintf("%d:%d-%d", r.File, r.Off/u, (r.End+u-1)/u))
			}
			if fmt.Sprint(got) != c.reads {
				t.Errorf("%v, want %s", got, c.reads)
			}
		})
	}
}

// drawLimits draws limits of the order of Small, so that plans of some MB have all shapes.
func drawLimits(t *rapid.T) Limits {
	l := Limits{
		Gap:      rapid.SampledFrom([]int64{-1, 0, 1, 1000, 100_000}).Draw(t, "gap"),
		OverRead: rapid.SampledFrom([]float64{0, 1, 1.1, 2, 5}).Draw(t, "over-read"),
		MinRead:  rapid.Int64Range(1, 200_000).Draw(t, "min"),
		InFlight: rapid.IntRange(1, 9).Draw(t, "in flight"),
	}
	l.MaxRead = rapid.Int64Range(2*l.MinRead, 2*l.MinRead+1_000_000).Draw(t, "max")
	l.Memory = rapid.Int64Range(2*l.MinRead, 2*l.MinRead+1_000_000).Draw(t, "memory")
	return l
}

// drawWants draws wants as checkpoints have them: many small, few large, some near each other, some twice, in any order. A large
// one has about 30 units.
func drawWants(t *rapid.T, unit int) []Want {
	files := rapid.IntRange(1, 4).Draw(t, "files")
	at := make([]int64, files)
	hole := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 100), rapid.Int64Range(0, int64(unit)/2), rapid.Int64Range(0, 20*int64(unit)))
	size := rapid.OneOf(rapid.IntRange(0, 20), rapid.IntRange(unit/10, 2*unit), rapid.IntRange(0, 30*unit))
	var wants []Want
	for range rapid.IntRange(0, 40).Draw(t, "wants") {
		file := rapid.IntRange(0, files-1).Draw(t, "file")
		if len(wants) > 0 && rapid.IntRange(0, 9).Draw(t, "again") == 0 {
			w := rapid.SampledFrom(wants).Draw(t, "which")
			wants = append(wants, want(w.File, max(w.Off+rapid.Int64Range(-50, 50).Draw(t, "shift"), 0), size.Draw(t, "size")))
			continue
		}
		w := want(file, at[file]+hole.Draw(t, "hole"), size.Draw(t, "size"))
		at[file] = w.end()
		wants = append(wants, w)
	}
	return rapid.Permutation(wants).Draw(t, "order")
}

// byFile sorts reads by file and offset.
func byFile(reads []Request) []Request {
	sorted := slices.Clone(reads)
	slices.SortStableFunc(sorted, func(a, b Request) int { return cmp.Compare(a.File, b.File) })
	return sorted
}

// Every wanted byte is in exactly one piece, or comes by a copy from a byte that is there before.
func TestEveryByteOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wants := drawWants(t, 1000)
		p := NewPlan(wants, drawLimits(t))
		there := make([][]bool, len(wants))
		for i, w := range wants {
			there[i] = make([]bool, len(w.Dst))
		}
		read := make([][]bool, 4) // by file
		for i := range read {
			read[i] = make([]bool, 5_000_000)
		}
		var n int64
		for _, r := range p.Requests {
			for _, piece := range r.Pieces {
				w := wants[piece.Want]
				if w.File != r.File || w.Off+piece.At != piece.Off {
					t.Fatalf("piece %+v of read %d:[%d, %d) is not of its want at %d:%d", piece, r.File, r.Off, r.End, w.File, w.Off)
				}
				for i := range piece.N {
					if read[r.File][piece.Off+i] {
						t.Fatalf("byte %d of file %d is read twice", piece.Off+i, r.File)
					}
					read[r.File][piece.Off+i], there[piece.Want][piece.At+i] = true, true
				}
				n += piece.N
			}
		}
		for _, c := range p.Copies {
			if from, to := wants[c.From], wants[c.To]; from.File != to.File || from.Off+c.FromAt != to.Off+c.ToAt {
				t.Fatalf("copy %+v is between different bytes", c)
			}
			for i := range c.N {
				if !there[c.From][c.FromAt+i] || there[c.To][c.ToAt+i] {
					t.Fatalf("copy %+v at %d: from what is not there, or over what is", c, i)
				}
				there[c.To][c.ToAt+i] = true
			}
		}
		for i := range there {
			if at := slices.Index(there[i], false); at >= 0 {
				t.Fatalf("want %d lacks byte %d", i, at)
			}
		}
		if p.Wanted != n {
			t.Errorf("Wanted %d, want %d", p.Wanted, n)
		}
	})
}

// Reads keep to the limits of size, over-read and gap; those of a file rise; and no short one is left that could be joined.
func TestReadsKeepLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wants, given := drawWants(t, 10_000), drawLimits(t)
		l := given.withDefaults()
		reads := byFile(NewPlan(wants, given).Requests)
		for i, r := range reads {
			at := r.Off
			var wanted int64
			for k, p := range r.Pieces {
				if p.N < 1 || k == 0 && p.Off != r.Off || p.Off < at || p.Off-at > max(l.Gap, 0) {
					t.Fatalf("read [%d, %d): piece %+v after %d, gap %d", r.Off, r.End, p, at, l.Gap)
				}
				at, wanted = p.end(), wanted+p.N
			}
			span := r.End - r.Off
			if at != r.End || wanted != r.Wanted || span > l.MaxRead || span > l.Memory {
				t.Fatalf("read [%d, %d): pieces end at %d, %d are wanted, at most %d and %d", r.Off, r.End, at, wanted, l.MaxRead, l.Memory)
			}
			if span > Small && float64(span) > l.OverRead*float64(wanted) {
				t.Fatalf("read [%d, %d): %d wanted bytes, over-read %v", r.Off, r.End, wanted, l.OverRead)
			}
			if i == 0 || reads[i-1].File != r.File {
				continue
			}
			before := reads[i-1]
			if r.Off < before.End {
				t.Fatalf("reads [%d, %d) and [%d, %d) do not rise", before.Off, before.End, r.Off, r.End)
			}
			if (&builder{limits: l}).joins(before, r) {
				t.Fatalf("reads [%d, %d) and [%d, %d) could be one", before.Off, before.End, r.Off, r.End)
			}
		}
	})
}

// What lies densely takes few reads: with every hole paid for, one for each MinRead bytes and one for each file.
func TestFewReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var wants []Want
		var bytes int64
		files := rapid.IntRange(1, 3).Draw(t, "files")
		for file := range files {
			at := rapid.Int64Range(0, 1<<30).Draw(t, "start")
			for range rapid.IntRange(1, 300).Draw(t, "n") {
				n := rapid.IntRange(1, 40_000).Draw(t, "size")
				wants = append(wants, want(file, at, n))
				bytes += int64(n)
				at += int64(n) + rapid.Int64Range(0, int64(n)).Draw(t, "hole")
			}
		}
		l := Limits{MinRead: 256 << 10, MaxRead: 1 << 20, Memory: 1 << 20}
		p := NewPlan(wants, l)
		if most := 2*int(bytes/(256<<10)) + 2*files; len(p.Requests) > most {
			t.Errorf("%d reads of %d bytes in %d wants, want at most %d", len(p.Requests), bytes, len(wants), most)
		}
	})
}

// In every part of the order the reads of a file are as many as its share, one more or less.
func TestFilesTakeTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var reads []Request
		counts := rapid.SliceOfN(rapid.IntRange(0, 30), 1, 6).Draw(t, "counts")
		for file, n := range counts {
			for i := range n {
				reads = append(reads, Request{File: file, Off: int64(i)})
			}
		}
		order := interleave(reads)
		if !slices.EqualFunc(byFile(order), reads, func(a, b Request) bool { return a.File == b.File && a.Off == b.Off }) {
			t.Fatal("reads of a file lost their order")
		}
		seen := make([]int, len(counts))
		for k, r := range order {
			seen[r.File]++
			for file, n := range counts {
				share := float64(n) * float64(k+1) / float64(len(order))
				if d := float64(seen[file]) - share; d > float64(len(counts)) || d < -float64(len(counts)) {
					t.Fatalf("after %d of %d reads file %d had %d, want about %.1f", k+1, len(order), file, seen[file], share)
				}
			}
		}
	})
}

// The segments of a read cover it, or all but what the file bridges; their memory is that of the wants or bounce memory.
func TestSegments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wants, l := drawWants(t, 10_000), drawLimits(t)
		l.MinRead *= 4
		l.MaxRead, l.Memory = 8*l.MinRead, 8*l.MinRead
		bridges := rapid.SampledFrom([]int64{0, 500, 1 << 20}).Draw(t, "bridges")
		for _, r := range NewPlan(wants, l).Requests {
			at := r.Off
			var pieces []Piece
			all := segments(r, bridges)
			bridged := bridges > 0 && r.End-r.Off > Small && widest(r) <= bridges
			for _, s := range all {
				if s.n < 1 || s.off != at && !bridged || s.off < at {
					t.Fatalf("segment %+v after %d", s, at)
				}
				if s.bounced && bridged || !s.bounced && (len(s.pieces) != 1 || s.pieces[0].Off != s.off || s.pieces[0].N != s.n) {
					t.Fatalf("segment %+v, bridged %v", s, bridged)
				}
				for _, p := range s.pieces {
					if s.bounced && p.N >= direct {
						t.Fatalf("piece %+v is bounced", p)
					}
				}
				at = s.off + s.n
				pieces = append(pieces, s.pieces...)
			}
			if at != r.End || !slices.Equal(pieces, r.Pieces) {
				t.Fatalf("segments end at %d and hold %v, want %+v", at, pieces, r)
			}
			if n := bouncing(all); n > l.Memory || n > r.End-r.Off {
				t.Fatalf("%d bytes of bounce memory of %d", n, l.Memory)
			}
		}
	})
}

func TestSmallAvoided(t *testing.T) {
	for name, c := range map[string]struct {
		wants []Want
		n     int
	}{
		"none":                    {nil, 0},
		"one alone":               {[]Want{want(0, 0, 100)}, 0},
		"two in one read":         {[]Want{want(0, 0, 100), want(0, 200, 100)}, 1},
		"far apart":               {[]Want{want(0, 0, 100), want(0, 100<<20, 100)}, 0},
		"beside a large one":      {[]Want{want(0, 0, 1<<20), want(0, 1<<20, 100)}, 1},
		"wanted twice":            {[]Want{want(0, 0, 100), want(0, 0, 100)}, 1},
		"large ones do not count": {[]Want{want(0, 0, 1<<20), want(0, 1<<20, 1<<20)}, 0},
	} {
		if got := NewPlan(c.wants, Limits{}).SmallAvoided; got != c.n {
			t.Errorf("%s: %d, want %d", name, got, c.n)
		}
	}
}

// Reads grow with what is wanted, so that there are enough to spread and not more.
func TestReadSize(t *testing.T) {
	for wanted, n := range map[int64]int64{0: 8 << 20, 100 << 20: 8 << 20, 1 << 30: 16 << 20, 2 << 30: 32 << 20, 1 << 40: 56 << 20} {
		if got := (Limits{}).withDefaults().target(wanted); got != n {
			t.Errorf("%d bytes: reads of %d, want %d", wanted, got, n)
		}
	}
}

func TestLimits(t *testing.T) {
	for _, bad := range []Limits{{OverRead: 0.5}, {MinRead: -1}, {MinRead: 1 << 20, MaxRead: 1 << 20}, {Memory: 8 << 20}, {InFlight: -1}, {InFlight: 1 << 20}} {
		if bad.Validate() == nil {
			t.Errorf("%+v is valid", bad)
		}
	}
	if err := (Limits{}).Validate(); err != nil {
		t.Error(err)
	}
}

// In flight are as many reads as told, and more small ones.
func TestAdmits(t *testing.T) {
	l := Limits{}.withDefaults()
	fill := func(n int64) (reads int) {
		for l.admits(n, reads, int64(reads)*n) {
			reads++
		}
		return reads
	}
	for n, want := range map[int64]int{64 << 20: 16, 8 << 20: 16, 4 << 20: 32, 1 << 20: 128, 1: 128} {
		if got := fill(n); got != want {
			t.Errorf("%d reads of %d bytes, want %d", got, n, want)
		}
	}
}
