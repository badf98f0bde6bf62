package loader

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/stepahead-io/stepahead/sampler"
	"github.com/stepahead-io/stepahead/transform"
)

// KindChecksum is the kind of a sample whose bytes are wrong on every replica. The other kinds of bad samples are
// those of transform: decode, truncated, unsupported and limit.
const KindChecksum = "checksum"

// BadSampleError names a sample whose content is bad: its checksum is wrong on every replica, or it
// cannot be decoded. It stops the run under OnBadRaise and when no substitute is good, and is what
// Stats.Substitutions list.
type BadSampleError struct {
	// Source is the name of the sample's source, "" where a single dataset has none.
	Source string `json:"source,omitempty"`
	Sample uint64 `json:"sample"` // in its source
	Key    string `json:"key"`    // "" when the index could not be read
	Field  string `json:"field"`
	Bin    string `json:"bin"` // the file as messages name it: store.Store.Address
	Offset int64  `json:"offset"`
	Length int64  `json:"length"`
	// Kind is KindChecksum or one of transform's.
	Kind   string `json:"kind"`
	Reason string `json:"reason"`
}

func (e *BadSampleError) Error() string { return e.where() + ": " + e.Reason }

// where names the part, for errors of every kind.
func (e *BadSampleError) where() string {
	return fmt.Sprintf("%s, field %q, %s at offset %d, %d bytes", named(e.Source, e.Sample, e.Key), e.Field, e.Bin, e.Offset, e.Length)
}

func named(source string, sample uint64, key string) string {
	name := fmt.Sprintf("sample %d", sample)
	if source != "" {
		name += fmt.Sprintf(" of %q", source)
	}
	if key != "" {
		name += fmt.Sprintf(" (key %q)", key)
	}
	return name
}

// fault says why the content of a part is bad.
type fault struct{ kind, reason string }

// faultOf is the fault that a *corruptError or a *transform.Error about the content states.
func faultOf(err error) *fault {
	var t *transform.Error
	if errors.As(err, &t) {
		return &fault{string(t.Kind), t.Error()}
	}
	return &fault{KindChecksum, err.Error()}
}

// part names the part of an entry.
func (b *build) part(ctx context.Context, e *entry) *BadSampleError {
	return &BadSampleError{
		Source: b.l.sourceOf(e.ref), Sample: e.ref.Sample, Key: b.l.keyOf(ctx, e.ref), Field: b.l.media[e.field].name,
		Bin: b.l.data.address(e.part.Extent), Offset: e.part.Off, Length: e.part.Len,
	}
}

// failed names the part at which the run stops for another reason than bad content.
func (b *build) failed(ctx context.Context, e *entry, err error) error {
	var t *transform.Error
	if errors.As(err, &t) && t.Kind == transform.KindPlan {
		return fmt.Errorf("%s: %w: the picture is not bad but the plan does not fit it, so on_bad does not apply: change the plan, or pack the dataset without this picture",
			b.part(ctx, e).where(), err)
	}
	return fmt.Errorf("%s: %w", b.part(ctx, e).where(), err)
}

// keyOf returns a sample's key, "" if the index cannot be read: the sample is named by its number all the same.
func (l *Loader) keyOf(ctx context.Context, ref sampler.SampleRef) string {
	key, err := l.data.Key(ctx, l.data.number(ref))
	if err != nil {
		return ""
	}
	return key
}

// nameOf names a sample for errors.
func (l *Loader) nameOf(ref sampler.SampleRef) string { return named(l.sourceOf(ref), ref.Sample, "") }

// sourceOf returns the name of a sample's source.
func (l *Loader) sourceOf(ref sampler.SampleRef) string { return l.spec.Sources[ref.Source].Name }

// unnamed takes the item's name out of a worker's error: whoever reports the error names the part, once.
func unnamed(err error, name string, sample uint64) error {
	t, ok := err.(*transform.Error)
	if !ok {
		return err
	}
	detail := strings.TrimPrefix(t.Detail, name+": ")
	detail = strings.TrimPrefix(detail, fmt.Sprintf("%s (sample %d): ", name, sample))
	return &transform.Error{Kind: t.Kind, Op: strings.TrimSuffix(t.Op, " "+name), Detail: detail}
}

// maxNamed bounds the bad samples that the log names.
const maxNamed = 4096

// namedOnce remembers which bad samples, by their number in the union, the log has named. The zero value is ready. Safe for concurrent use.
type namedOnce struct {
	mu      sync.Mutex
	samples map[uint64]bool
}

// add tells whether a sample is to be named now, and whether it is the last one that is.
func (n *namedOnce) add(sample uint64) (name, last bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.samples[sample] || len(n.samples) == maxNamed {
		return false, false
	}
	if n.samples == nil {
		n.samples = map[uint64]bool{}
	}
	n.samples[sample] = true
	return true, len(n.samples) == maxNamed
}
