package pybind

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/stepahead-io/stepahead/loader"
	"github.com/stepahead-io/stepahead/sampler"
	"github.com/stepahead-io/stepahead/store/address"
)

// source is stepahead.Source.
type source struct {
	URL       string   `json:"url"`
	Name      string   `json:"name"`
	Weight    *float64 `json:"weight"`
	Upsample  float64  `json:"upsample"`
	MaxEpochs uint64   `json:"max_epochs"`
}

func (s source) weight() float64 {
	if s.Weight == nil {
		return 0
	}
	return *s.Weight
}

// seedTwice refuses a seed beside an order that has one.
func (o options) seedTwice() error {
	if o.Seed != nil && o.Tokens != nil && o.Tokens.Order != nil {
		return &optionError{fmt.Errorf("seed: %d: Megatron's order has its own: give it to stepahead.megatron.Order", *o.Seed)}
	}
	return nil
}

func (o options) seed() uint64 {
	if o.Seed == nil {
		return 0
	}
	return *o.Seed
}

// checkWeights tells a weight of 0, which a change may raise, from one that was forgotten.
func (o options) checkWeights() error {
	given, positive := 0, false
	for _, s := range o.Sources {
		if s.Weight != nil {
			given++
			positive = positive || *s.Weight != 0
		}
	}
	switch {
	case given > 0 && given < len(o.Sources):
		return fmt.Errorf("sources: %d of %d have a weight: give all of them one (0: takes no part until a change gives it a weight), or none", given, len(o.Sources))
	case given > 0 && !positive:
		return errors.New("sources: all weights are 0: nothing would be drawn")
	}
	return nil
}

// orderOptions are the keyword arguments of the DataLoader about the order, beyond those of a plain dataset.
type orderOptions struct {
	Sources      []source        `json:"sources"`
	Spec         json.RawMessage `json:"spec"`
	Given        bool            `json:"given"`
	Balance      string          `json:"balance"`
	GroupBy      string          `json:"group_by_length"`
	GroupSteps   int64           `json:"group_steps"`
	Chunk        uint64          `json:"chunk"`
	Window       uint64          `json:"window"`
	Temperature  float64         `json:"temperature"`
	EpochSteps   int64           `json:"epoch_steps"`
	SampleTokens int64           `json:"sample_tokens"`
	Changes      []change        `json:"changes"`
}

// change is one of changes=.
type change struct {
	Step        int64              `json:"step"`
	Tokens      int64              `json:"tokens"`
	GlobalBatch int64              `json:"global_batch"`
	Weights     map[string]float64 `json:"weights"`
}

// urls are the datasets to open.
func (o options) urls() []string {
	if len(o.Sources) == 0 {
		return []string{o.URL}
	}
	urls := make([]string, len(o.Sources))
	for i, s := range o.Sources {
		urls[i] = s.URL
	}
	return urls
}

// places are the open stores of a loader's datasets, in their order; datasets of one store share it.
type places []*address.Place

func (p places) Close() error {
	var errs []error
	for i, place := range p {
		if !slices.Contains(p[:i], place) {
			errs = append(errs, place.Close())
		}
	}
	return errors.Join(errs...)
}

// openPlaces opens the stores of the datasets and returns, beside them, what each dataset is called there.
func (o options) openPlaces(ctx context.Context) (open places, names []string, err error) {
	for _, url := range o.urls() {
		place, name, err := o.placeOf(ctx, open, url)
		if err != nil {
			return nil, nil, errors.Join(&storeError{err}, open.Close())
		}
		open, names = append(open, place), append(names, name)
	}
	return open, names, nil
}

// placeOf finds the store of a dataset among those that are open, or opens it.
func (o options) placeOf(ctx context.Context, open places, url string) (*address.Place, string, error) {
	for _, place := range open {
		if name, err := place.Resolve(url); err == nil {
			return place, name, nil
		}
	}
	place, err := address.Open(ctx, url, address.Options{Getenv: o.Environment.get, Node: o.Node, Rank: o.Rank})
	if err != nil {
		return nil, "", err
	}
	return place, place.Name, nil
}

// address is where agents find a dataset. What this process calls the default cluster is named: theirs may be
// another one.
func (o options) address(place *address.Place, name, url string) string {
	if place.Remote {
		return place.Store.Address(name)
	}
	return url
}

// order fills in where samples come from.
func (o options) order(lo *loader.Options, open places, names []string) error {
	lo.Given, lo.Balance = o.Given, o.Balance
	for i, url := range o.urls() {
		at := o.address(open[i], names[i], url)
		if len(o.Sources) == 0 {
			lo.Store, lo.Dir, lo.URL = open[i].Store, names[i], at
			continue
		}
		lo.Sources = append(lo.Sources, loader.Source{Name: o.Sources[i].Name, Store: open[i].Store, Dir: names[i], URL: at})
	}
	if err := o.checkWeights(); err != nil {
		return &optionError{err}
	}
	if err := o.seedTwice(); err != nil {
		return err
	}
	if o.GroupBy == "" && o.GroupSteps != 0 {
		return &optionError{fmt.Errorf("group_steps: %d: only group_by_length uses it: name the column of the lengths, or leave it out", o.GroupSteps)}
	}
	if len(o.Spec) == 0 && !o.plain() {
		spec := o.spec()
		lo.Spec = &spec
		return nil
	}
	lo.Seed, lo.GlobalBatch, lo.Shuffle, lo.Last, lo.GroupByLength = o.seed(), o.GlobalBatch, o.Shuffle, o.Last, o.groups()
	for i, s := range o.Sources {
		lo.Sources[i].Weight, lo.Sources[i].Upsample, lo.Sources[i].MaxEpochs = s.weight(), s.Upsample, s.MaxEpochs
	}
	return o.whole(lo)
}

// whole takes the specification that was given whole, if one was. The loader refuses what is given beside it, but for what it
// does not know.
func (o options) whole(lo *loader.Options) error {
	if len(o.Spec) == 0 {
		return nil
	}
	if o.Seed != nil {
		return &optionError{fmt.Errorf("spec: seed=%d: the seed is in the specification: give one or the other", *o.Seed)}
	}
	for _, s := range o.Sources {
		if s.Weight != nil {
			return &optionError{fmt.Errorf("spec: the weight of the source %q: it is in the specification: give one or the other", s.Name)}
		}
	}
	if !o.plain() {
		return &optionError{errors.New("spec: chunk, window, temperature, epoch_steps, sample_tokens and changes are in it: give one or the other")}
	}
	spec, err := specOf(o.Spec)
	if err != nil {
		return &optionError{err}
	}
	lo.Spec = &spec
	return nil
}

// groups is how samples are grouped by length, nil if they are not.
func (o options) groups() *sampler.GroupByLength {
	if o.GroupBy == "" {
		return nil
	}
	return &sampler.GroupByLength{Column: o.GroupBy, Steps: o.GroupSteps}
}

// unknownSamples stands in a specification for a number of samples that its dataset will tell.
const unknownSamples = 1 << 40

// specOf parses a specification whose sources need not say how many samples they have: 0 then.
func specOf(text json.RawMessage) (sampler.Spec, error) {
	var whole map[string]json.RawMessage
	var sources []map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(text, &whole), json.Unmarshal(whole["sources"], &sources)); err != nil {
		return sampler.ParseSpec(text) // whose message is better
	}
	open := make([]bool, len(sources))
	for i, s := range sources {
		if open[i] = s != nil && s["samples"] == nil; open[i] {
			s["samples"] = json.RawMessage(strconv.Itoa(unknownSamples))
		}
	}
	var err error
	if whole["sources"], err = json.Marshal(sources); err == nil {
		text, err = json.Marshal(whole)
	}
	if err != nil {
		return sampler.Spec{}, err
	}
	spec, err := sampler.ParseSpec(text)
	for i := range spec.Sources {
		if open[i] {
			spec.Sources[i].Samples = 0
		}
	}
	return spec, err
}

// plain tells whether the loader's own options say the whole order.
func (o options) plain() bool {
	return o.Chunk == 0 && o.Window == 0 && o.Temperature == 0 && o.EpochSteps == 0 && o.SampleTokens == 0 && len(o.Changes) == 0
}

// spec is the order that the arguments say; the datasets tell how many samples there are.
func (o options) spec() sampler.Spec {
	spec := sampler.Spec{
		Version: sampler.SpecVersion, Seed: o.seed(), GlobalBatch: o.GlobalBatch, Shuffle: o.Shuffle, Last: o.Last,
		Chunk: o.Chunk, Window: o.Window, Temperature: o.Temperature, EpochSteps: o.EpochSteps, SampleTokens: o.SampleTokens,
		GroupByLength: o.groups(),
	}
	for _, s := range o.Sources {
		spec.Sources = append(spec.Sources, sampler.Source{Name: s.Name, Weight: s.weight(), Upsample: s.Upsample, MaxEpochs: s.MaxEpochs})
	}
	if len(o.Sources) == 0 {
		spec.Sources = []sampler.Source{{}}
	}
	for _, c := range o.Changes {
		spec.Changes = append(spec.Changes, sampler.Change{Step: c.Step, Tokens: c.Tokens, GlobalBatch: c.GlobalBatch, Weights: c.Weights})
	}
	return spec
}
