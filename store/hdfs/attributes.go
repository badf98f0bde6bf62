package hdfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/stepahead-io/stepahead/store"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
)

// Attribute implements store.Attributer. Attributes are extended attributes "user.NAME". Reading one takes the right to read the file.
func (s *Store) Attribute(ctx context.Context, name, attribute string) ([]byte, bool, error) {
	return s.attributeOf(ctx, name, s.path(name), attribute)
}

// attributeOf is Attribute of what has a path, and is called name.
func (s *Store) attributeOf(ctx context.Context, name, path, attribute string) (value []byte, ok bool, err error) {
	err = s.to(ctx, "Attribute", name, func() error {
		x, err := extended(attribute, nil)
		if err != nil {
			return err
		}
		value, ok, err = s.attribute(ctx, path, x)
		return err
	})
	return value, ok, err
}

func (s *Store) attribute(ctx context.Context, path string, x *hproto.XAttr) ([]byte, bool, error) {
	found, err := s.places.GetXAttrs(ctx, path, x)
	if err != nil {
		err = attributeError(err)
		if errors.Is(err, errNoAttribute) {
			return nil, false, nil
		}
		return nil, false, err
	}
	for _, f := range found {
		if f.GetNamespace() == x.GetNamespace() && f.GetName() == x.GetName() {
			return append([]byte{}, f.GetValue()...), true, nil
		}
	}
	return nil, false, nil
}

// SetAttribute implements store.Attributer. It takes the right to write the file.
func (s *Store) SetAttribute(ctx context.Context, name, attribute string, value []byte) error {
	return s.setAttribute(ctx, name, s.path(name), attribute, value)
}

func (s *Store) setAttribute(ctx context.Context, name, path, attribute string, value []byte) error {
	return s.to(ctx, "SetAttribute", name, func() error {
		x, err := extended(attribute, value)
		if err != nil {
			return err
		}
		if value == nil {
			err = attributeError(s.places.RemoveXAttr(ctx, path, x))
		} else {
			err = attributeError(s.places.SetXAttr(ctx, path, x, hproto.SetXAttrRequest_CREATE|hproto.SetXAttrRequest_REPLACE))
		}
		if errors.Is(err, errNoAttribute) {
			return nil
		}
		return err
	})
}

func extended(attribute string, value []byte) (*hproto.XAttr, error) {
	if err := store.CheckAttribute(attribute, value); err != nil {
		return nil, err
	}
	return &hproto.XAttr{Namespace: hproto.XAttr_USER.Enum(), Name: &attribute, Value: value}, nil
}

// errNoAttribute: the file is there, and has no attribute of the name.
var errNoAttribute = errors.New("no such attribute")

// attributeError recognises what HDFS has no exceptions of its own for.
func attributeError(err error) error {
	var remote *namenode.RemoteError
	if !errors.As(err, &remote) {
		return err
	}
	switch {
	case strings.HasSuffix(remote.Class, ".XAttrNotFoundException"),
		strings.Contains(remote.Message, "At least one of the attributes provided was not found"),
		strings.Contains(remote.Message, "No matching attributes found for remove operation"):
		return errNoAttribute
	case strings.Contains(remote.Message, "Support for XAttrs has been disabled"):
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	case strings.Contains(remote.Message, "would exceed limit"):
		return fmt.Errorf("%w: %w", fs.ErrInvalid, err)
	}
	return err
}
