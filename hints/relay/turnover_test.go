package relay

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestKeep holds what keep promises, for any records and any room.
func TestKeep(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		jobs := 1 + r.IntN(6)
		records := make([]kept, r.IntN(60))
		present := map[string]bool{}
		for i := range records {
			job := fmt.Sprint(min(r.IntN(jobs), r.IntN(jobs))) // some say more than others
			records[i] = kept{job, 1 + r.Int64N(100)}
			present[job] = true
		}
		room := r.Int64N(2000)
		stays := make([]bool, len(records))
		total := int64(0)
		last := -1
		for _, i := range keep(records, room) {
			if i <= last {
				t.Fatalf("seed %d: place %d after %d", seed, i, last)
			}
			last, stays[i] = i, true
			total += records[i].size
		}
		if total > room {
			t.Fatalf("seed %d: %d bytes are kept, there is room for %d", seed, total, room)
		}
		depth := map[string]int64{}
		gone := map[string]bool{}
		deepestKept, leastGone, smallest := int64(0), int64(1)<<40, int64(1)<<40
		for i := len(records) - 1; i >= 0; i-- {
			k := records[i]
			depth[k.job] += k.size
			switch d := depth[k.job]; {
			case stays[i] && gone[k.job]:
				t.Fatalf("seed %d: of job %s an older record is kept, and a newer one is not", seed, k.job)
			case stays[i]:
				deepestKept = max(deepestKept, d)
			case d <= room/int64(len(present)):
				t.Fatalf("seed %d: a record within the newest %d bytes of job %s is gone: %d jobs, room for %d", seed, d, k.job, len(present), room)
			default:
				gone[k.job] = true
				leastGone = min(leastGone, d)
				smallest = k.size
			}
		}
		if len(gone) > 0 && (deepestKept > leastGone || total+100 <= room && smallest <= 100) {
			t.Fatalf("seed %d: a job keeps %d bytes, another loses what is within its newest %d; %d of %d are used", seed, deepestKept, leastGone, total, room)
		}
	}
}

func of(job, id string) Record {
	r := record(id)
	r.Job = job
	return r
}

// TestNoisyJob: what others have said stays, however much one says, and the files stay within the limit.
func TestNoisyJob(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger")
	l := ledger(t, file, Options{Limit: leastLimit})
	quiet := []string{}
	for i := range 900 { // some 300 KB
		if i%100 == 0 {
			id := fmt.Sprint("quiet-", i)
			_, err := l.Append(t.Context(), of(fmt.Sprint("job-", i%200), id))
			must(t, err)
			quiet = append(quiet, id)
		}
		_, err := l.Append(t.Context(), of("noisy", fmt.Sprint(i)))
		must(t, err)
	}
	total := int64(0)
	for _, name := range []string{file, file + olderSuffix} {
		info, err := os.Stat(name)
		must(t, err)
		total += info.Size()
	}
	all := ids(t, file, 0)
	for _, id := range quiet {
		if !slices.Contains(all, id) {
			t.Errorf("%s was pushed out", id)
		}
	}
	if total > leastLimit || len(all) < 80 || all[len(all)-1] != "899" {
		t.Errorf("%d bytes, %d records, the last is %s", total, len(all), all[len(all)-1])
	}
}

// TestKilledWhileTurningOver: whatever has been done of it, each record is read once, and the next one is taken.
func TestKilledWhileTurningOver(t *testing.T) {
	for _, killed := range []string{"before the rename", "behind the rename", "behind the removal"} {
		file := filepath.Join(t.TempDir(), "ledger")
		l := ledger(t, file, Options{})
		want := []string{}
		for i := range 5 {
			id := fmt.Sprint(i)
			_, err := l.Append(t.Context(), record(id))
			must(t, err)
			want = append(want, id)
		}
		draft := file + draftSuffix
		must(t, l.writeOlder(draft))
		must(t, l.Close())
		if killed != "before the rename" {
			must(t, os.Rename(draft, file+olderSuffix))
		}
		if killed == "behind the removal" {
			must(t, os.Remove(file))
		}
		if got := ids(t, file, 0); !slices.Equal(got, want) {
			t.Errorf("%s: read while nobody writes: %v", killed, got)
		}
		again := ledger(t, file, Options{})
		for i := 5; i < 8; i++ {
			if n, err := again.Append(t.Context(), record(fmt.Sprint(i))); err != nil || n != uint64(i+1) {
				t.Fatalf("%s: %d, %v", killed, n, err)
			}
			want = append(want, fmt.Sprint(i))
			must(t, again.turnOver())
		}
		if got := ids(t, file, 0); !slices.Equal(got, want) {
			t.Errorf("%s: %v", killed, got)
		}
		must(t, again.Close())
	}
}
