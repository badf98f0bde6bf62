package store

import "context"

// Prefetcher is implemented by stores that can learn in few calls where many files lie.
type Prefetcher interface {
	// Prefetch learns versions and locations of files, so that opening, locating and reading them soon
	// after asks nobody but the nodes that hold them. What cannot be learned is left out: the calls that
	// need it say why.
	Prefetch(ctx context.Context, names []string) error
	// Forget makes the calls that follow ask anew what Prefetch learned of files, for those who must see what
	// others have written since.
	Forget(names []string)
}

// FileRanges are ranges of one file for ReadMany, and what came of reading them.
type FileRanges struct {
	File   File
	Ranges []Range
	// Err is set by ReadMany: nil if every range is filled.
	Err error
}

// ManyReader is implemented by stores that read ranges of many files in one call.
type ManyReader interface {
	// ReadMany is File.ReadRanges for each of the files, which this store opened, and sets their Err. It
	// returns an error if ctx ended; the buffers belong to the store until it returns.
	ReadMany(ctx context.Context, files []FileRanges) error
}

// ReadMany reads ranges of many files of s: in one call where the store can do it, else one file after the
// other.
func ReadMany(ctx context.Context, s Store, files []FileRanges) error {
	if m, ok := s.(ManyReader); ok {
		return m.ReadMany(ctx, files)
	}
	for i := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		files[i].Err = files[i].File.ReadRanges(ctx, files[i].Ranges)
	}
	return ctx.Err()
}
