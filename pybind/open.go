package pybind

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/stepahead-io/stepahead/loader"
	"github.com/stepahead-io/stepahead/transform"
	"github.com/stepahead-io/stepahead/transform/worker"
)

// options are the keyword arguments of the Python DataLoader; docs are there.
type options struct {
	orderOptions
	agentOptions
	URL           string                     `json:"url"`
	Seed          *uint64                    `json:"seed"`
	GlobalBatch   int64                      `json:"global_batch"`
	Shuffle       string                     `json:"shuffle"`
	Last          string                     `json:"last"`
	Rank          int                        `json:"rank"`
	World         int                        `json:"world_size"`
	Epochs        int64                      `json:"epochs"`
	Transform     json.RawMessage            `json:"transform"`  // one plan, for the one media field
	Transforms    map[string]json.RawMessage `json:"transforms"` // or a plan a field
	Fields        []string                   `json:"fields"`
	Layout        string                     `json:"layout"`
	OnBad         string                     `json:"on_bad"`
	Prefetch      int                        `json:"prefetch"`
	Workers       int                        `json:"workers"`
	WorkerPath    string                     `json:"worker"`
	FetchDeadline float64                    `json:"fetch_deadline"` // seconds
	Tokens        *tokenOptions              `json:"tokens"`
	RecordPath    string                     `json:"record"`
	StatsPath     string                     `json:"stats"`
	Node          string                     `json:"node"`
	CacheDir      string                     `json:"cache_dir"`
	LogLevel      string                     `json:"log_level"`
	Environment   environment                `json:"environment"`
}

// Open starts to open a loader over a dataset, with the options of the Python DataLoader as JSON, and
// returns its handle, a positive integer. Wait says when it is open. Plans that are wrong are refused at once. Errors
// start with a code that Python maps to a class.
func Open(optionsJSON string) (handle int64, err error) {
	defer caught("Open", &err)
	o, err := parse(optionsJSON)
	if err != nil {
		return 0, encode(err)
	}
	plans, err := o.plans()
	if err != nil {
		return 0, encode(err)
	}
	s := newSession(func(ctx context.Context) (*loader.Loader, places, error) { return o.open(ctx, plans) })
	return loaders.add(s), nil
}

// Wait waits at most timeoutMillis for a loader to be open and says whether it is. After an error the
// handle stands for nothing.
func Wait(handle int64, timeoutMillis int) (open bool, err error) {
	defer caught("Wait", &err)
	s, err := loaders.get(handle)
	if err != nil {
		return false, encode(err)
	}
	select {
	case <-s.opened:
	case <-time.After(time.Duration(timeoutMillis) * time.Millisecond):
		return false, nil
	}
	if s.failed != nil {
		loaders.drop(handle)
		return false, encode(s.failed)
	}
	return true, nil
}

func parse(optionsJSON string) (options, error) {
	var o options
	decoder := json.NewDecoder(bytes.NewReader([]byte(optionsJSON)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&o); err != nil {
		return o, &optionError{fmt.Errorf("pybind.Open: options: %w", err)}
	}
	return o, nil
}

// open opens the stores and the loader; cancelling ctx ends it early. The stores are to be closed after the loader.
func (o options) open(ctx context.Context, plans map[string]*transform.Plan) (*loader.Loader, places, error) {
	open, names, err := o.openPlaces(ctx)
	if err != nil {
		return nil, nil, err
	}
	l, err := o.openIn(ctx, open, names, plans)
	if err != nil {
		return nil, nil, errors.Join(err, open.Close())
	}
	return l, open, nil
}

// openIn opens the loader of datasets in open stores.
func (o options) openIn(ctx context.Context, open places, names []string, plans map[string]*transform.Plan) (*loader.Loader, error) {
	log, err := newLog(o.LogLevel)
	if err != nil {
		return nil, err
	}
	deadline, err := seconds("fetch_deadline", o.FetchDeadline)
	if err != nil {
		return nil, err
	}
	program := o.WorkerPath
	if len(plans) > 0 && o.Tokens == nil { // else there is nothing to transform
		if program, err = worker.Find(o.WorkerPath); err != nil {
			return nil, &workerError{err}
		}
	}
	var secured *tls.Config
	if len(o.Agents) > 0 {
		if secured, err = o.tls(); err != nil {
			return nil, err
		}
	}
	tokens, err := o.Tokens.loader()
	if err != nil {
		return nil, &optionError{err}
	}
	lo := loader.Options{
		CacheDir: o.CacheDir,
		Rank:     o.Rank, World: o.World, Epochs: o.Epochs,
		Plans: plans, Fields: o.Fields, Layout: o.Layout, OnBad: o.OnBad,
		Prefetch: o.Prefetch, Workers: o.Workers, WorkerPath: program,
		Agents: o.Agents, Registry: o.Registry, Token: o.Token, TLS: secured, Job: o.Job, Run: o.Run,
		FetchDeadline: deadline, Tokens: tokens,
		RecordPath: o.RecordPath, StatsPath: o.StatsPath, Log: log,
	}
	if err := o.order(&lo, open, names); err != nil {
		return nil, err
	}
	if err := lo.Validate(); err != nil {
		return nil, &optionError{err}
	}
	return loader.Open(ctx, lo)
}

// seconds refuses what time.Duration cannot hold.
func seconds(name string, s float64) (time.Duration, error) {
	const most = 1e9
	if s < 0 || s > most {
		return 0, &optionError{fmt.Errorf("%s: %v: must be 0 to %v seconds", name, s, most)}
	}
	return time.Duration(s * float64(time.Second)), nil
}

// plans parses the plan of every field. One plan without a field's name is for the dataset's one
// media field, which loader.Open finds under the empty name.
func (o options) plans() (map[string]*transform.Plan, error) {
	sources := o.Transforms
	if len(o.Transform) > 0 {
		sources = map[string]json.RawMessage{"": o.Transform}
	}
	plans := make(map[string]*transform.Plan, len(sources))
	for _, field := range slices.Sorted(maps.Keys(sources)) {
		plan, err := transform.ParsePlan(sources[field])
		switch {
		case err != nil && field != "":
			return nil, fmt.Errorf("plan of field %q: %w", field, err)
		case err != nil:
			return nil, err
		}
		plans[field] = plan
	}
	return plans, nil
}

func newLog(level string) (*zap.Logger, error) {
	if level == "" {
		level = "warn"
	}
	at, err := zap.ParseAtomicLevel(level)
	if err != nil {
		return nil, &optionError{fmt.Errorf("pybind.Open: log_level: %w", err)}
	}
	config := zap.NewProductionConfig()
	config.Level = at
	config.Encoding = "console"
	config.EncoderConfig = zap.NewDevelopmentEncoderConfig()
	config.OutputPaths = []string{"stderr"}
	config.DisableStacktrace = true
	return config.Build()
}
