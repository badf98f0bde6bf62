package store

import "context"

var (
	_ Attributer     = (*hooked)(nil)
	_ StoragePolicer = (*hooked)(nil)
	_ PlacedCreator  = (*hooked)(nil)
	_ Protector      = (*hooked)(nil)
	_ NodeLister     = (*hooked)(nil)
	_ Mover          = (*hooked)(nil)
	_ Tracker        = (*hooked)(nil)
)

func (h *hooked) Attribute(ctx context.Context, name, attribute string) (value []byte, ok bool, err error) {
	a, can := h.inner.(Attributer)
	if !can {
		return nil, false, unsupported("Attribute", h.inner.Address(name))
	}
	err = h.around(ctx, &call{op: opAttribute, name: name}, func() (err error) {
		value, ok, err = a.Attribute(ctx, name, attribute)
		return err
	})
	return value, ok, err
}

func (h *hooked) SetAttribute(ctx context.Context, name, attribute string, value []byte) error {
	a, can := h.inner.(Attributer)
	if !can {
		return unsupported("SetAttribute", h.inner.Address(name))
	}
	return h.around(ctx, &call{op: opSetAttribute, name: name}, func() error { return a.SetAttribute(ctx, name, attribute, value) })
}

func (h *hooked) StoragePolicy(ctx context.Context, name string) (policy StoragePolicy, err error) {
	p, can := h.inner.(StoragePolicer)
	if !can {
		return StoragePolicy{}, unsupported("StoragePolicy", h.inner.Address(name))
	}
	err = h.around(ctx, &call{op: opPolicy, name: name}, func() (err error) {
		policy, err = p.StoragePolicy(ctx, name)
		return err
	})
	return policy, err
}

func (h *hooked) SetStoragePolicy(ctx context.Context, name, policy string) error {
	p, can := h.inner.(StoragePolicer)
	if !can {
		return unsupported("SetStoragePolicy", h.inner.Address(name))
	}
	return h.around(ctx, &call{op: opSetPolicy, name: name}, func() error { return p.SetStoragePolicy(ctx, name, policy) })
}

func (h *hooked) CreatePlaced(ctx context.Context, name string, p Placement) (Writer, error) {
	c, can := h.inner.(PlacedCreator)
	if !can {
		return nil, unsupported("CreatePlaced", h.inner.Address(name))
	}
	return h.create(ctx, name, func() (Writer, error) { return c.CreatePlaced(ctx, name, p) })
}

func (h *hooked) Access(ctx context.Context, name string) (access Access, err error) {
	p, can := h.inner.(Protector)
	if !can {
		return Access{}, unsupported("Access", h.inner.Address(name))
	}
	err = h.around(ctx, &call{op: opAccess, name: name}, func() (err error) {
		access, err = p.Access(ctx, name)
		return err
	})
	return access, err
}

func (h *hooked) Protect(ctx context.Context, name string, a Access) error {
	p, can := h.inner.(Protector)
	if !can {
		return unsupported("Protect", h.inner.Address(name))
	}
	return h.around(ctx, &call{op: opProtect, name: name}, func() error { return p.Protect(ctx, name, a) })
}

func (h *hooked) Nodes(ctx context.Context) (nodes []Node, err error) {
	l, can := h.inner.(NodeLister)
	if !can {
		return nil, unsupported("Nodes", h.inner.Address("/"))
	}
	err = h.around(ctx, &call{op: opNodes, name: "/"}, func() (err error) {
		nodes, err = l.Nodes(ctx)
		return err
	})
	return nodes, err
}

func (h *hooked) MoveReplica(ctx context.Context, name string, off int64, from, to string) error {
	m, can := h.inner.(Mover)
	if !can {
		return unsupported("MoveReplica", h.inner.Address(name))
	}
	return h.around(ctx, &call{op: opReplicate, name: name}, func() error { return m.MoveReplica(ctx, name, off, from, to) })
}

func (h *hooked) Track(ctx context.Context, name string) (handle string, err error) {
	t, can := h.inner.(Tracker)
	if !can {
		return "", unsupported("Track", h.inner.Address(name))
	}
	err = h.around(ctx, &call{op: opStat, name: name}, func() (err error) {
		handle, err = t.Track(ctx, name)
		return err
	})
	return handle, err
}

func (h *hooked) Tracked(name, handle string) (Store, error) {
	t, can := h.inner.(Tracker)
	if !can {
		return nil, unsupported("Tracked", h.inner.Address(name))
	}
	inner, err := t.Tracked(name, handle)
	if err != nil {
		return nil, err
	}
	return &hooked{inner: inner, around: h.around, hidesLocal: h.hidesLocal}, nil
}
