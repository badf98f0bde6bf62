package loader

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/stepahead-io/stepahead/binfmt"
	"github.com/stepahead-io/stepahead/sampler"
	"github.com/stepahead-io/stepahead/sampler/megatron"
	"github.com/stepahead-io/stepahead/sampler/tokens"
)

// TokenOptions have a Loader deliver batches of tokens, of datasets that hold a field of kind tokens, in
// place of that field's raw bytes. B is the rank's samples a step and L the sequence length; every batch
// has these fields, or those of them that Options.Fields names:
//
//	tokens        int64   [B, L]  inputs
//	labels        int64   [B, L]  the token after each input
//	loss_mask     float32 [B, L]  1 where a label counts, 0 where there is none
//	position_ids  int64   [B, L]  0, 1, ... from the start of the sample, or of the piece of a pack
//
// Windows and chunks have also, only if it is named:
//
//	text          int64   [B, L+1]  inputs and last label in one piece of memory
//
// and where samples are packs of several sequences (best-fit) also
//
//	cu_seqlens    int32   [K+1]   where pieces start in the batch seen as B*L tokens; the last is B*L
//	document_ids  int64   [B, L]  the number of the piece in its pack, -1 behind the last; only if named
//
// What follows the last piece of a pack is token 0 with mask 0, a stretch of its own in cu_seqlens.
type TokenOptions struct {
	// SequenceLength is L, 1 to tokens.MaxSequenceLength.
	SequenceLength int64
	// Packing is tokens.Windows (default), tokens.Chunk or tokens.BestFit.
	Packing string
	// Megatron, in place of Packing, has the samples of Megatron-core's datasets, in its order.
	Megatron *MegatronOptions
	// VocabSize, if not 0, is the number of token ids: an id from there on stops the run with a
	// *BadSampleError of kind KindToken, as negative ids always do.
	VocabSize int64
}

// KindToken is the kind of a sample that holds an id which is no token.
const KindToken = "token"

// The fields of token batches, in the order in which they are delivered.
const (
	fieldTokens = iota
	fieldLabels
	fieldLossMask
	fieldPositions
	fieldCuSeqlens
	fieldDocuments
	fieldText
	tokenFieldKinds
)

// tokenField is what a field of a token batch is called and holds.
type tokenField struct {
	name, dtype string
	size        int64 // bytes of an element
}

var tokenFields = [tokenFieldKinds]tokenField{
	fieldTokens:    {"tokens", dtypeInt64, 8},
	fieldLabels:    {"labels", dtypeInt64, 8},
	fieldLossMask:  {"loss_mask", dtypeFloat32, 4},
	fieldPositions: {"position_ids", dtypeInt64, 8},
	fieldCuSeqlens: {"cu_seqlens", dtypeInt32, 4},
	fieldDocuments: {"document_ids", dtypeInt64, 8},
	fieldText:      {"text", dtypeInt64, 8},
}

// The dtypes that only token batches have.
const (
	dtypeInt32   = "int32"
	dtypeFloat32 = "float32"
)

func (o TokenOptions) order(seed uint64, source string, shuffle bool) tokens.Options {
	return tokens.Options{SequenceLength: o.SequenceLength, Packing: o.Packing, Shuffle: shuffle, Seed: seed, Source: source}
}

func (o TokenOptions) packed() bool { return o.Packing == tokens.BestFit }

// validateTokens is about batches of tokens.
func (o Options) validateTokens() []error {
	if o.Tokens == nil {
		return nil
	}
	var errs []error
	if err := o.Tokens.order(0, "", false).Validate(); err != nil {
		errs = append(errs, fmt.Errorf("tokens: %w", err))
	}
	if m := o.Tokens.Megatron; m != nil {
		if o.Tokens.Packing != "" {
			errs = append(errs, fmt.Errorf("tokens: packing %q: Megatron's order has its own: leave the packing out", o.Tokens.Packing))
		}
		if m.Part < megatron.Train || m.Part > megatron.Test {
			errs = append(errs, fmt.Errorf("tokens: part %d: must be megatron.Train, Valid or Test", int(m.Part)))
		}
	}
	if o.Tokens.VocabSize < 0 {
		errs = append(errs, fmt.Errorf("tokens: vocab_size: %d: must not be negative; 0 does not check", o.Tokens.VocabSize))
	}
	for _, unused := range []struct {
		given bool
		name  string
		value any
		why   string
	}{
		{len(o.Plans) > 0, "transform", "a plan", "batches of tokens have no media field"},
		{o.Layout != "", "layout", o.Layout, "batches of tokens have no pictures"},
		{o.Workers != 0, "workers", o.Workers, "tokens need no worker processes"},
		{o.WorkerPath != "", "worker", o.WorkerPath, "tokens need no worker processes"},
		{o.OnBad == sampler.OnBadSubstitute, "on_bad", o.OnBad, "bad tokens have no substitute: they stop the run"},
	} {
		if unused.given {
			errs = append(errs, fmt.Errorf("%s: %v: %s: leave it out", unused.name, unused.value, unused.why))
		}
	}
	return errs
}

// tokenMode is what a Loader of tokens has beside others.
type tokenMode struct {
	length  int64
	packed  bool
	limit   uint64         // ids are below it
	fields  []int          // of tokenFields, those that are delivered
	sources []*tokenSource // by source of the order, or of megatron
	// megatron is Megatron's order over all sources, or nil.
	megatron *megatron.Dataset
	// One row each of a sample without pieces: copying is the fastest way to fill.
	ones, counting []byte
	// writes lets one task at a time fill a batch: that is as fast as the memory, and two at once take the
	// processors' time, not less of it.
	writes *gate
}

// openTokens reads the indexes of all token files and plans the samples. It reads no token.
func (l *Loader) openTokens(ctx context.Context) (err error) {
	o := l.o.Tokens
	m := &tokenMode{writes: newGate(1), length: o.SequenceLength, packed: o.packed(), limit: math.MaxInt64 + 1}
	l.tokens = m
	if o.VocabSize > 0 {
		m.limit = uint64(o.VocabSize)
	}
	if m.fields, err = chooseTokenFields(l.o.Fields, m.packed); err != nil {
		return err
	}
	if err := m.countable(l.o.whole().GlobalBatch / int64(l.o.World)); err != nil {
		return err
	}
	for i, member := range l.data.members {
		s, err := openTokenSource(ctx, member, o.Megatron != nil || o.Packing == tokens.Chunk || o.Packing == tokens.BestFit)
		if err != nil {
			return err
		}
		s.number = i
		m.sources = append(m.sources, s)
		if o.Megatron != nil {
			continue
		}
		if err := s.plan(ctx, o.order(l.o.whole().Seed, l.data.Members()[i].Name, l.o.whole().Shuffle != sampler.ShuffleNone)); err != nil {
			return err
		}
	}
	if o.Megatron != nil {
		if err := m.planMegatron(ctx, l.o); err != nil {
			return err
		}
	}
	m.ones, m.counting = constantRows(m.length)
	if len(l.o.Agents) > 0 {
		l.o.Log.Info("agents prepare media only: tokens are read from the store")
	}
	return nil
}

// chooseTokenFields returns the fields to deliver: those that are named, else all that need no name.
func chooseTokenFields(names []string, packed bool) ([]int, error) {
	have, most := []int{fieldTokens, fieldLabels, fieldLossMask, fieldPositions, fieldText}, 4
	if packed {
		have, most = []int{fieldTokens, fieldLabels, fieldLossMask, fieldPositions, fieldCuSeqlens, fieldDocuments}, 5
	}
	if len(names) == 0 {
		return have[:most], nil
	}
	var all []string
	var fields []int
	for _, f := range have {
		all = append(all, tokenFields[f].name)
		if slices.Contains(names, tokenFields[f].name) {
			fields = append(fields, f)
		}
	}
	for _, name := range names {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("fields: %q: these batches of tokens have %v: %w", name, all, ErrOptions)
		}
	}
	return fields, nil
}

// countable tells whether cu_seqlens can hold the tokens of so many samples.
func (m *tokenMode) countable(samples int64) error {
	if slices.Contains(m.fields, fieldCuSeqlens) && samples > math.MaxInt32/m.length {
		return fmt.Errorf("%d samples a rank of %d tokens: cu_seqlens counts to 2^31 - 1: lower one of them: %w", samples, m.length, ErrOptions)
	}
	return nil
}

// number is the sample's among those of all sources, for records.
func (m *tokenMode) number(ref sampler.SampleRef) uint64 {
	n := ref.Sample
	for _, s := range m.sources[:ref.Source] {
		n += uint64(s.order.Samples())
	}
	return n
}

// A tokenSource is one dataset of tokens.
type tokenSource struct {
	number int // in tokenMode.sources
	data   *dataset
	dtype  string
	size   int64 // bytes of a token in the files
	bins   []tokenBin
	order  *tokens.Order
	// lengths are those of all sequences, and marks the tokens before every markEvery-th of them; empty where the order takes
	// bins for sequences.
	lengths sequenceLengths
	marks   []int64
}

// tokenBin is one pair of .bin and .idx.
type tokenBin struct {
	tokens int64
	// firstToken and firstSequence count what lies in the bins before.
	firstToken, firstSequence int64
}

// openTokenSource reads the indexes of a dataset, each whole: after that each file is one stream without gaps, and what becomes of the
// indexes does not matter any more. sequences says that the order needs the lengths of sequences.
func openTokenSource(ctx context.Context, data *dataset, sequences bool) (*tokenSource, error) {
	field, ok := data.manifest.Field(binfmt.TokensField)
	if !ok || field.Kind != binfmt.Tokens {
		return nil, fmt.Errorf("%s: tokens: the dataset has %v, no tokens: index Megatron files with `stepahead index`: %w", data.store.Address(data.dir), fieldNames(data.manifest), ErrOptions)
	}
	s := &tokenSource{data: data, dtype: field.Dtype, size: binfmt.TokenSize(field.Dtype)}
	if strings.HasPrefix(s.dtype, "float") {
		return nil, fmt.Errorf("%s: tokens: the files hold %s: token ids are whole numbers: %w", data.store.Address(data.dir), s.dtype, ErrOptions)
	}
	if sequences {
		s.lengths = sequenceLengths{}
	}
	var at tokenBin
	for bin := range data.manifest.Bins {
		n, err := s.addBin(ctx, bin, at, sequences)
		if err != nil {
			return nil, err
		}
		at.firstToken, at.firstSequence = at.firstToken+s.bins[bin].tokens, at.firstSequence+n
	}
	if sequences {
		s.mark()
	}
	return s, nil
}

// addBin reads the index of a bin and returns how many sequences it has.
func (s *tokenSource) addBin(ctx context.Context, bin int, at tokenBin, sequences bool) (n int64, err error) {
	index, free, err := s.data.index.Tokens(ctx, bin)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, free()) }()
	if err := index.Check(ctx); err != nil {
		return 0, err
	}
	if index.HasModes() {
		return 0, fmt.Errorf("%s: tokens: bin %s holds images between its tokens: %w", s.data.store.Address(s.data.dir), s.data.manifest.Bins[bin].Name, ErrOptions)
	}
	at.tokens, n = index.Tokens(), index.Sequences()
	s.bins = append(s.bins, at)
	if !sequences {
		return n, nil
	}
	s.lengths = slices.Grow(s.lengths, int(n))[:int64(len(s.lengths))+n]
	return n, index.Lengths(s.lengths[at.firstSequence:], 0)
}

// plan makes the order of the source's samples. What is wrong with the options or the data matches ErrOptions.
func (s *tokenSource) plan(ctx context.Context, o tokens.Options) (err error) {
	var lengths sampler.Lengths = binLengths(s.bins)
	if s.lengths != nil {
		lengths = s.lengths
	}
	s.order, err = tokens.New(ctx, lengths, o)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %w", s.data.store.Address(s.data.dir), ErrOptions, err)
	}
	return nil
}

// spec has the order be one of samples of tokens.
func (o TokenOptions) spec() *sampler.TokenSpec {
	return &sampler.TokenSpec{Packing: o.Packing, SequenceLength: o.SequenceLength}
}
