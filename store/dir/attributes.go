package dir

import (
	"context"
	"io/fs"

	"github.com/stepahead-io/stepahead/store"
)

var _ store.Attributer = (*Store)(nil)

// Attribute implements store.Attributer.
func (s *Store) Attribute(ctx context.Context, name, attribute string) (value []byte, ok bool, err error) {
	err = s.own(ctx, "Attribute", name, func(info fs.FileInfo) error {
		if err := store.CheckAttribute(attribute, nil); err != nil {
			return err
		}
		c, err := s.sidecar(name, info)
		value, ok = c.Attributes[attribute]
		return err
	})
	return value, ok, err
}

// SetAttribute implements store.Attributer.
func (s *Store) SetAttribute(ctx context.Context, name, attribute string, value []byte) error {
	return s.own(ctx, "SetAttribute", name, func(info fs.FileInfo) error {
		if err := store.CheckAttribute(attribute, value); err != nil {
			return err
		}
		return s.change(ctx, name, info, func(c *sidecar) error {
			if value == nil {
				delete(c.Attributes, attribute)
				return nil
			}
			if c.Attributes == nil {
				c.Attributes = map[string][]byte{}
			}
			c.Attributes[attribute] = append([]byte{}, value...)
			return nil
		})
	})
}
