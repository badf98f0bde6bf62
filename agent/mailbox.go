package agent

import "sync"

// mailbox is a queue that never blocks its writers. It is bounded by them: each waits for what comes of
// its message before it writes the next.
type mailbox[T any] struct {
	wake chan struct{} // holds a token when there may be something to take

	mu    sync.Mutex
	items []T
}

func newMailbox[T any]() *mailbox[T] { return &mailbox[T]{wake: make(chan struct{}, 1)} }

func (m *mailbox[T]) put(item T) {
	m.mu.Lock()
	m.items = append(m.items, item)
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

func (m *mailbox[T]) take() []T {
	m.mu.Lock()
	defer m.mu.Unlock()
	items := m.items
	m.items = nil
	return items
}
