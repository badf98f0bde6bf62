package sampler

import (
	"fmt"
	"strconv"
)

// A differ collects what differs between a state and the program that loads it.
type differ []string

func (d *differ) compare(field string, there, here any) {
	if there != here {
		*d = append(*d, fmt.Sprintf("%s: %v in the state, %v here", field, there, here))
	}
}

// diffSpecs names every field that differs, one entry each.
func diffSpecs(there, here Spec) []string {
	var d differ
	d.compare("seed", there.Seed, here.Seed)
	d.compare("global batch", there.GlobalBatch, here.GlobalBatch)
	d.compare("shuffle", there.Shuffle, here.Shuffle)
	d.compare("last", there.Last, here.Last)
	d.compare("chunk", there.Chunk, here.Chunk)
	d.compare("window", there.Window, here.Window)
	d.compare("temperature", orOne(there.Temperature), orOne(here.Temperature))
	d.compare("epoch steps", there.EpochSteps, here.EpochSteps)
	d.compare("tokens a sample", there.SampleTokens, here.SampleTokens)
	d.compare("tokens", there.Tokens.text(), here.Tokens.text())
	d.compare("group by length", there.GroupByLength.text(), here.GroupByLength.text())
	d.compare("number of sources", len(there.Sources), len(here.Sources))
	for i := range min(len(there.Sources), len(here.Sources)) {
		d.sources(i, there.Sources[i], here.Sources[i], len(here.Sources) == 1)
	}
	d.compare("number of changes", len(there.Changes), len(here.Changes))
	for i := range min(len(there.Changes), len(here.Changes)) {
		d.changes(i, there.Changes[i], here.Changes[i])
	}
	return d
}

// unsettled says where a change could come, of a state within a window of steps that exchange samples.
func unsettled(there, here *Spec, step int64) []string {
	end := there.settled(step)
	if !there.isStream() || there.GroupByLength.text() != here.GroupByLength.text() || end == step {
		return nil
	}
	return []string{fmt.Sprintf("group by length: the steps up to %d exchange samples, and the state is of step %d: changes can come from step %d on", end-1, step, end)}
}

func (d *differ) sources(i int, there, here Source, alone bool) {
	if there.Name != here.Name {
		name := "source name"
		if !alone {
			name = fmt.Sprintf("name of source %d", i)
		}
		d.compare(name, strconv.Quote(there.Name), strconv.Quote(here.Name))
	}
	of := ""
	if !alone {
		of = fmt.Sprintf(" of %q", here.Name)
	}
	d.compare("samples"+of, there.Samples, here.Samples)
	d.compare("weight"+of, there.Weight, here.Weight)
	d.compare("upsample"+of, orOne(there.Upsample), orOne(here.Upsample))
	d.compare("max epochs"+of, there.MaxEpochs, here.MaxEpochs)
}

func (d *differ) changes(i int, there, here Change) {
	at := fmt.Sprintf("change %d", i)
	d.compare(at+", step", there.Step, here.Step)
	d.compare(at+", tokens", there.Tokens, here.Tokens)
	d.compare(at+", global batch", there.GlobalBatch, here.GlobalBatch)
	d.compare(at+", weights", fmt.Sprint(there.Weights), fmt.Sprint(here.Weights)) // printed in the order of their names
}

func orOne(v float64) float64 {
	if v == 0 {
		return 1
	}
	return v
}
