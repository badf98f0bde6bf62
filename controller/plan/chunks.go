package plan

import "iter"

// chunkLen is a power of 2.
const chunkLen = 1024

// chunks is a list that grows and shrinks without moving what is in it: a slice with a million elements would be copied within one step.
type chunks[T any] struct {
	all [][]T
	len int
}

func (c *chunks[T]) at(i int) *T { return &c.all[uint(i)/chunkLen][uint(i)%chunkLen] }

func (c *chunks[T]) push(v T) {
	if c.len == len(c.all)*chunkLen {
		c.all = append(c.all, make([]T, chunkLen))
	}
	c.len++
	*c.at(c.len - 1) = v
}

// pop removes the last. Of the memory that is not used one chunk is kept.
func (c *chunks[T]) pop() {
	var none T
	c.len--
	*c.at(c.len) = none
	if last := len(c.all) - 1; c.len <= (last-1)*chunkLen {
		c.all[last] = nil
		c.all = c.all[:last]
	}
}

// each gives all, from the first; the list must not change meanwhile.
func (c *chunks[T]) each() iter.Seq[T] {
	return func(yield func(T) bool) {
		for i := range c.len {
			if !yield(*c.at(i)) {
				return
			}
		}
	}
}
