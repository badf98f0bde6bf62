package energon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/stepahead-io/stepahead/binfmt/foreign"
	"github.com/stepahead-io/stepahead/store"
)

// maxMeta bounds the text files of .nv-meta, in bytes.
const maxMeta = 64 << 20

// counted is a shard and the number of its samples. Its place in the list is its tar_file_id.
type counted struct {
	path    string
	samples int64
}

// readCounts reads .info.json, or .info.yaml of older versions: shard_counts, whose order is that of the ids.
func readCounts(ctx context.Context, st store.Store, meta string) ([]counted, error) {
	name, parse := ".info.json", parseCounts
	data, err := store.ReadFile(ctx, st, path.Join(meta, name), maxMeta)
	if errors.Is(err, fs.ErrNotExist) {
		name, parse = ".info.yaml", parseOldCounts
		data, err = store.ReadFile(ctx, st, path.Join(meta, name), maxMeta)
	}
	if err != nil {
		return nil, fmt.Errorf("the shards are not known without .info.json: %w", err)
	}
	counts, err := parse(data)
	if err == nil && len(counts) == 0 {
		err = errors.New("shard_counts is empty")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", name, err, foreign.ErrContainer)
	}
	return counts, nil
}

// add appends a shard, which must be inside the dataset and new. seen holds those before it.
func add(all []counted, seen map[string]bool, name string, samples int64) ([]counted, error) {
	if err := checkPath(name); err != nil {
		return nil, err
	}
	if seen[name] {
		return nil, fmt.Errorf("shard_counts: %q occurs twice", name)
	}
	seen[name] = true
	return append(all, counted{name, samples}), nil
}

func parseCounts(data []byte) ([]counted, error) {
	var info struct {
		Counts json.RawMessage `json:"shard_counts"`
	}
	if err := json.Unmarshal(data, &info); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(info.Counts))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil, errors.New("shard_counts is no map")
	}
	var all []counted
	seen := make(map[string]bool)
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var n int64
		if err := dec.Decode(&n); err != nil || n < 0 {
			return nil, fmt.Errorf("shard_counts: %v: want a number of samples (%w)", key, err)
		}
		if all, err = add(all, seen, key.(string), n); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// parseOldCounts reads .info.yaml.
func parseOldCounts(data []byte) ([]counted, error) {
	var info struct {
		Counts yaml.MapSlice `yaml:"shard_counts"`
	}
	if err := yaml.Unmarshal(data, &info); err != nil {
		return nil, err
	}
	var all []counted
	seen := make(map[string]bool)
	for _, item := range info.Counts {
		name, isText := item.Key.(string)
		n, isCount := item.Value.(uint64)
		if !isText || !isCount || n > 1<<62 {
			return nil, fmt.Errorf("shard_counts: %v: %v: want a path and a number of samples", item.Key, item.Value)
		}
		var err error
		if all, err = add(all, seen, name, int64(n)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// checkPath refuses shards outside of the dataset.
func checkPath(name string) error {
	if name == "" || path.IsAbs(name) || path.Clean(name) != name || name == ".." || strings.HasPrefix(name, "../") {
		return fmt.Errorf("the shard %q is no path inside the dataset", name)
	}
	return nil
}

// split is split.yaml.
type split struct {
	parts   map[string][]string
	without exclusions
}

func readSplit(ctx context.Context, st store.Store, meta string) (split, error) {
	data, err := store.ReadFile(ctx, st, path.Join(meta, "split.yaml"), maxMeta)
	if errors.Is(err, fs.ErrNotExist) {
		return split{}, nil
	}
	if err != nil {
		return split{}, err
	}
	s, err := parseSplit(data)
	if err != nil {
		return s, fmt.Errorf("split.yaml: %w: %w", err, foreign.ErrContainer)
	}
	return s, nil
}

func parseSplit(data []byte) (split, error) {
	var y struct {
		Parts   map[string][]string `yaml:"split_parts"`
		Exclude []string            `yaml:"exclude"`
	}
	if err := yaml.Unmarshal(data, &y); err != nil {
		return split{}, err
	}
	s := split{parts: make(map[string][]string), without: make(exclusions)}
	var all foreign.Expander
	for name, patterns := range y.Parts {
		for _, p := range patterns {
			names, err := all.Braces(p)
			if err != nil {
				return s, fmt.Errorf("%s: %.100q: %w", name, p, err)
			}
			s.parts[name] = append(s.parts[name], names...)
		}
	}
	for _, p := range y.Exclude {
		names, err := all.Braces(p)
		if err != nil {
			return s, fmt.Errorf("exclude: %.100q: %w", p, err)
		}
		for _, n := range names {
			s.without[n] = true
		}
	}
	return s, nil
}

// shards tells which of the shards are a split's. Every one that it names must be known.
func (s split) shards(name string, counts []counted) (map[string]bool, error) {
	all := make(map[string]bool, len(counts))
	for _, c := range counts {
		all[c.path] = true
	}
	if name == AllSplits || name == "" && s.parts == nil {
		return all, nil
	}
	if name == "" {
		name = "train"
	}
	named, ok := s.parts[name]
	if !ok {
		return nil, fmt.Errorf("there is no split %q in split.yaml: it has %q: choose one with --split: %w", name, slices.Sorted(maps.Keys(s.parts)), foreign.ErrContainer)
	}
	wanted := make(map[string]bool, len(named))
	for _, w := range named {
		if !all[w] {
			return nil, fmt.Errorf("split.yaml names the shard %q, .info.json does not know it: %w", w, foreign.ErrContainer)
		}
		wanted[w] = true
	}
	return wanted, nil
}

// exclusions are shards, and samples as shard/key.
type exclusions map[string]bool

// excluded are keys of samples of one shard.
type excluded map[string]bool

func (e excluded) sorted() []string { return slices.Sorted(maps.Keys(e)) }

// bySample sorts what is excluded by shard: those that are known are shards, the others samples of one.
func (e exclusions) bySample(counts []counted) map[string]excluded {
	shards := make(map[string]bool, len(counts))
	for _, c := range counts {
		shards[c.path] = true
	}
	keys := make(map[string]excluded)
	for name := range e {
		for at := len(name); at > 0; at = strings.LastIndexByte(name[:at], '/') {
			shard := name[:at]
			if !shards[shard] || at == len(name) {
				continue
			}
			if keys[shard] == nil {
				keys[shard] = make(excluded)
			}
			keys[shard][foreign.KeyText(name[at+1:])] = true
		}
	}
	return keys
}
