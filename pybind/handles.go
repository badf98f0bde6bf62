package pybind

import (
	"errors"
	"sync"
)

// handles are what numbers stand for that Python holds. Go pointers never reach it.
type handles[T any] struct {
	mu   sync.Mutex
	last int64
	open map[int64]T
}

var errHandle = errors.New("it is closed")

func (h *handles[T]) add(value T) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open == nil {
		h.open = map[int64]T{}
	}
	h.last++
	h.open[h.last] = value
	return h.last
}

func (h *handles[T]) get(number int64) (T, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	value, ok := h.open[number]
	if !ok {
		return value, errHandle
	}
	return value, nil
}

// take is get, and the number stands for nothing any more.
func (h *handles[T]) take(number int64) (T, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	value, ok := h.open[number]
	delete(h.open, number)
	return value, ok
}
