package hints

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
)

// FileWriter is what a [Publisher] needs of a store. Names are absolute slash paths in the store.
type FileWriter interface {
	// ReplaceFile writes a file beside, makes it durable and renames it. Parents are made.
	ReplaceFile(ctx context.Context, name string, data []byte) error
	// RemoveFile removes a file. A missing file matches fs.ErrNotExist.
	RemoveFile(ctx context.Context, name string) error
}

// Publisher says where agents are in the folder that a [Registry] reads. It is safe for concurrent use by
// different nodes' agents.
type Publisher struct {
	files FileWriter
	dir   string
}

// NewPublisher returns one for the folder dir, an absolute path in the store. It does no I/O.
func NewPublisher(f FileWriter, dir string) *Publisher { return &Publisher{files: f, dir: dir} }

// Publish writes or renews the entry of an agent.
func (p *Publisher) Publish(ctx context.Context, e Entry) error {
	data, err := encodeEntry(e)
	if err != nil {
		return fmt.Errorf("hints.Publish: %w", err)
	}
	if err := p.files.ReplaceFile(ctx, EntryName(p.dir, e.Node), data); err != nil {
		return fmt.Errorf("hints.Publish: %w", err)
	}
	return nil
}

// Withdraw removes the entry of an agent. A missing one is no error.
func (p *Publisher) Withdraw(ctx context.Context, node string) error {
	if err := p.files.RemoveFile(ctx, EntryName(p.dir, node)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("hints.Withdraw: %w", err)
	}
	return nil
}

// DefaultRegistry is the registry's place in a store unless another one is configured.
const DefaultRegistry = "/.stepahead/agents"

// EntryName is the name of a node's entry in the registry dir.
func EntryName(dir, node string) string { return path.Join(dir, node+entrySuffix) }
