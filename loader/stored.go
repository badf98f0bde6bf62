package loader

import (
	"fmt"
	"slices"
)

// maxStored bounds what a rank's step has of fields that are delivered as they are stored: such parts may have any length,
// and Options.Prefetch steps are in memory at once.
const maxStored = 4 << 30

// storedSize is how many bytes the parts that are delivered as they are stored need, or why that is too much.
func (b *build) storedSize() (size int64, err error) {
	var largest *entry
	for f, field := range b.l.media {
		if !field.stored {
			continue
		}
		for slot := range b.refs {
			e := b.slot(slot)[f]
			if largest == nil || e.part.Len > largest.part.Len {
				largest = e
			}
			if size += min(e.part.Len, maxStored+1); size > b.l.maxStored {
				return 0, fmt.Errorf("the parts that %d samples have in fields without a plan take more than the %d bytes that a rank's step may have (%s takes %d): lower the batch size, or leave the field out with fields=",
					len(b.refs), b.l.maxStored, b.nameOf(largest), largest.part.Len)
			}
		}
		size = alignUp(size, fieldAlign)
	}
	return size, nil
}

// placeStored gives the parts that are delivered as they are stored their places, one behind the other, field by field. What
// was read already is copied there.
func (b *build) placeStored() error {
	if len(b.l.media) == b.l.plans {
		return nil
	}
	size, err := b.storedSize()
	if err != nil {
		return err
	}
	room, err := b.l.slabs.get(size)
	if err != nil {
		return err
	}
	var start int64
	for i, f := range b.l.fields {
		if f.media >= 0 && b.l.media[f.media].stored {
			start = alignUp(start+b.placeField(f.media, &b.fields[i], room.mem[start:]), fieldAlign)
		}
	}
	if b.stored != nil {
		b.l.slabs.put(b.stored)
	}
	b.stored = room
	return nil
}

// placeField gives the parts of one field their places at the start of room, and returns how much of it they take.
func (b *build) placeField(f int, data *FieldData, room []byte) (end int64) {
	data.Offsets = make([]int64, len(b.refs)+1)
	for slot := range b.refs {
		e := b.slot(slot)[f]
		from := end
		end += e.part.Len
		place := room[from:end:end]
		if e.done {
			copy(place, e.dst)
		}
		e.dst, data.Offsets[slot+1] = place, end
	}
	data.Bytes = room[:end:end]
	return end
}

// replaceStored lays out anew what is delivered as it is stored if substitutes do not fit into the places of what they replace.
func (b *build) replaceStored() error {
	if slices.ContainsFunc(b.entries, func(e *entry) bool { return e.stored && int64(len(e.dst)) != e.part.Len }) {
		return b.placeStored()
	}
	return nil
}
