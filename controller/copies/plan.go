package copies

import (
	"hash/crc32"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/stepahead-io/stepahead/checkpoint"
	"github.com/stepahead-io/stepahead/store"
)

const mib = 1 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const (
	// batchFiles small files are sent at a time, at most.
	batchFiles = 64
	// pieces is how many a large file is cut into, if they are not too small or too large then.
	pieces = 16
	// abreast is how many large files are under way at once: enough for many nodes, and few enough that little is lost with the process.
	abreast = 4
)

// sizes are in bytes.
type sizes struct {
	// small files are sent whole, many at a time: at most batch together.
	small, batch int64
	// A piece is what one transfer reads of a large file and writes as a part: a multiple of least, at most most.
	least, most int64
	// asked is the length from which on the original's store is asked for a file's sum: less is sent in the time that this takes.
	asked int64
}

var usual = sizes{small: 8 * mib, batch: 16 * mib, least: 8 * mib, most: 64 * mib, asked: 64 << 10}

// task is what one transfer does: some small files, or a piece of a large one.
type task struct {
	files []int // of the checkpoint
	off   int64
	n     int64 // bytes in all
	piece bool
}

// pieceOf is the length of the pieces of a large file. block is that of the destination's blocks, 0 for none.
func (s sizes) pieceOf(size, block int64) int64 {
	n := (size/pieces + s.least) / s.least * s.least
	n = min(n, s.most)
	if block > 0 {
		n = min(n, block)
	}
	return n
}

// tasks cuts files into what is sent: large files first, a few abreast, so that their ends come early, then small ones in the order of their names.
func (s sizes) tasks(files []checkpoint.File, missing []int, block int64) []task {
	var all []task
	var group [][]task
	flush := func() {
		for i := 0; ; i++ {
			more := false
			for _, of := range group {
				if i < len(of) {
					all, more = append(all, of[i]), true
				}
			}
			if !more {
				break
			}
		}
		group = nil
	}
	var few task
	var batches []task
	for _, f := range missing {
		size := files[f].Size
		if size > s.small {
			if group = append(group, cut(f, size, s.pieceOf(size, block))); len(group) == abreast {
				flush()
			}
			continue
		}
		if len(few.files) == batchFiles || len(few.files) > 0 && few.n+size > s.batch {
			batches, few = append(batches, few), task{}
		}
		few.files, few.n = append(few.files, f), few.n+size
	}
	flush()
	if len(few.files) > 0 {
		batches = append(batches, few)
	}
	return append(all, batches...)
}

func cut(file int, size, piece int64) (all []task) {
	for off := int64(0); off < size; off += piece {
		all = append(all, task{files: []int{file}, off: off, n: min(piece, size-off), piece: true})
	}
	return all
}

// sum says what a file of the copy holds and that it was read back: a line of the record.
type sum struct {
	Name     string         `json:"name"`
	Size     int64          `json:"size"`
	Original store.Identity `json:"original"`
	Here     store.Identity `json:"here"`
	CRC32C   uint32         `json:"crc32c"`
	// Reused says that it was copied from another copy at the site.
	Reused bool `json:"reused,omitempty"`
}

// attempt is what a making left: its files by their names in the checkpoint, and the record of their sums.
type attempt struct {
	folder string
	files  map[string]store.Info
	sums   []sum
}

// found is a file that is whole at the destination.
type found struct {
	at string // its name in the store
	sum
}

// resume finds the files that need not be sent again: those of which a record, of whatever attempt, has the sum, and that are since then what they were,
// here and at the source. The others are nil.
func resume(files []checkpoint.File, attempts []attempt) []*found {
	type version struct {
		name string
		here store.Identity
	}
	sums := map[version]sum{}
	for _, a := range attempts {
		for _, s := range a.sums {
			sums[version{s.Name, s.Here}] = s
		}
	}
	all := make([]*found, len(files))
	for i, f := range files {
		for _, a := range attempts {
			info, there := a.files[f.Name]
			if !there || info.Identity == "" {
				continue
			}
			s, known := sums[version{f.Name, info.Identity}]
			if known && s.Size == f.Size && info.Size == f.Size && s.Original == f.Identity {
				all[i] = &found{info.Name, s}
				break
			}
		}
	}
	return all
}

// twin is a file of another copy at the site.
type twin struct {
	name string // in the site's store
	here store.Identity
	crc  uint32
}

// twinsIn finds those files of a copy, of which all is there, that have name and length of files of the original, by the numbers of these.
func twinsIn(r record, folder string, files []checkpoint.File, missing []int) map[int]twin {
	there := make(map[string]sum, len(r.Files))
	for _, s := range r.Files {
		there[s.Name] = s
	}
	found := map[int]twin{}
	for _, i := range missing {
		if s, ok := there[files[i].Name]; ok && s.Size == files[i].Size {
			found[i] = twin{path.Join(folder, r.Data, s.Name), s.Here, s.CRC32C}
		}
	}
	return found
}

// missing are the numbers of the files that are not there.
func missing(all []*found) (numbers []int) {
	for i, f := range all {
		if f == nil {
			numbers = append(numbers, i)
		}
	}
	return numbers
}

// markers says, for each layout, which files make a checkpoint complete, the one that is written last at the end.
var markers = map[checkpoint.Layout][]*regexp.Regexp{
	checkpoint.DCP:                {regexp.MustCompile(`^__\d+\.metadata$`), regexp.MustCompile(`^\.metadata$`)},
	checkpoint.TorchDist:          {regexp.MustCompile(`^\.metadata$`), regexp.MustCompile(`^metadata\.json$`)},
	checkpoint.Safetensors:        {regexp.MustCompile(`\.safetensors\.index\.json$`)},
	checkpoint.HuggingFace:        {regexp.MustCompile(`^trainer_state\.json$`)},
	checkpoint.TorchCheckpointing: {regexp.MustCompile(`^metadata\.pkl$`)},
	checkpoint.DeepSpeed:          {regexp.MustCompile(`_(model|optim)_states\.pt$`)},
	checkpoint.DeepSpeedUniversal: {regexp.MustCompile(`_states\.pt$`)},
}

// lastOf is the file without which the checkpoint is not complete: it gets its name last. Of layouts without one it is the last by name.
func lastOf(layout checkpoint.Layout, files []checkpoint.File) int {
	for _, marker := range slices.Backward(markers[layout]) {
		for i, f := range slices.Backward(files) {
			if marker.MatchString(f.Name) {
				return i
			}
		}
	}
	return len(files) - 1
}

// foldersOf are the folders that files lie in, each before those in it.
func foldersOf(root string, names []string) []string {
	folders := map[string]bool{root: true}
	for _, name := range names {
		for dir := path.Dir(path.Join(root, name)); strings.HasPrefix(dir, root+"/") && !folders[dir]; dir = path.Dir(dir) {
			folders[dir] = true
		}
	}
	all := make([]string, 0, len(folders))
	for dir := range folders {
		all = append(all, dir)
	}
	slices.Sort(all)
	return all
}
