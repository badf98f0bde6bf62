package main

import (
	"maps"
	"slices"
	"sync"
)

// problems are what is not as it should be, by what has it. It is safe for concurrent use.
type problems struct {
	mu   sync.Mutex
	list map[string]string
}

func newProblems() *problems { return &problems{list: make(map[string]string)} }

// set says what is wrong with something; "" says that nothing is.
func (p *problems) set(what, detail string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if detail == "" {
		delete(p.list, what)
		return
	}
	p.list[what] = detail
}

// all returns them, sorted.
func (p *problems) all() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []string
	for _, what := range slices.Sorted(maps.Keys(p.list)) {
		list = append(list, what+": "+p.list[what])
	}
	return list
}
