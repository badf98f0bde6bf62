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
	parse := parseCounts
	data, err := store.ReadFile(ctx, st, path.Join(meta, ".info.json"), maxMeta)
	if errors.Is(err, fs.ErrNotExist) {
		parse = parseOldCounts
		data, err = store.ReadFile(ctx, st, path.Join(meta, ".info.yaml"), maxMeta)
	}
	if err != nil {
		return nil, fmt.Errorf("the shards are not known without .info.json: %w", err)
	}
	counts, err := parse(data)
	if err == nil && len(counts) == 0 {
		err = errors.New("shard_counts is empty")
	}
	if err != nil {
		return nil, fmt.Errorf(".info.json: %w: %w", err, foreign.ErrContainer)
	}
	return counts, nil
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
		name := key.(string)
		if err := checkPath(name); err != nil {
			return nil, err
		}
		if seen[name] {
			return nil, fmt.Errorf("shard_counts: %q occurs twice", name)
		}
		seen[name] = true
		all = append(all, counted{name, n})
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
	for _, item := range info.Counts {
		name, isText := item.Key.(string)
		n, isCount := item.Value.(uint64)
		if !isText || !isCount || n > 1<<62 {
			return nil, fmt.Errorf("shard_counts: %v: %v: want a path and a number of samples", item.Key, item.Value)
		}
		if err := checkPath(name); err != nil {
			return nil, err
		}
		all = append(all, counted{name, int64(n)})
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
	s := split{parts: make(map[string][]string)}
	for name, patterns := range y.Parts {
		for _, p := range patterns {
			names, err := foreign.Braces(p)
			if err != nil {
				return s, fmt.Errorf("%s: %q: %w", name, p, err)
			}
			s.parts[name] = append(s.parts[name], names...)
		}
	}
	for _, p := range y.Exclude {
		names, err := foreign.Braces(p)
		if err != nil {
			return s, fmt.Errorf("exclude: %q: %w", p, err)
		}
		s.without = append(s.without, names...)
	}
	return s, nil
}

// shards lists the paths of a split's shards. Every one must be known.
func (s split) shards(name string, counts []counted) ([]string, error) {
	var all []string
	for _, c := range counts {
		all = append(all, c.path)
	}
	if name == AllSplits || name == "" && s.parts == nil {
		return all, nil
	}
	if name == "" {
		name = "train"
	}
	wanted, ok := s.parts[name]
	if !ok {
		var have []string
		for n := range s.parts {
			have = append(have, n)
		}
		slices.Sort(have)
		return nil, fmt.Errorf("there is no split %q in split.yaml: it has %q: choose one with --split: %w", name, have, foreign.ErrContainer)
	}
	for _, w := range wanted {
		if !slices.Contains(all, w) {
			return nil, fmt.Errorf("split.yaml names the shard %q, .info.json does not know it: %w", w, foreign.ErrContainer)
		}
	}
	return wanted, nil
}

// exclusions are shards, and samples as shard/key.
type exclusions []string

func (e exclusions) shard(name string) bool { return slices.Contains(e, name) }

// excluded are keys of samples of one shard.
type excluded map[string]bool

func (e excluded) sorted() []string { return slices.Sorted(maps.Keys(e)) }

func (e exclusions) of(shard string) excluded {
	var keys excluded
	for _, name := range e {
		if key, ok := strings.CutPrefix(name, shard+"/"); ok {
			if keys == nil {
				keys = make(excluded)
			}
			keys[foreign.KeyText(key)] = true
		}
	}
	return keys
}
