package binfmt

import (
	"encoding/binary"
	"fmt"
)

// The head of an .idx file (megatron-core, indexed_dataset.py): magic, u64 version, u8 type, u64 sequences, u64 entries of
// the document array.
const (
	idxMagic    = "MMIDIDX\x00\x00"
	idxVersion  = 1
	idxHeadSize = 34
)

// idxHead is what the head of an .idx file and its size tell. Four arrays follow the head, unaligned: the lengths of the
// sequences in tokens (int32), their places in the .bin in bytes (int64), the first sequence of each document and the
// number of all sequences (int64), and, in multimodal files, the modes of the sequences (int8).
type idxHead struct {
	dtype     string
	size      int64 // of one token
	sequences int64
	documents int64
	modal     bool
}

func (h idxHead) lengthsAt() int64  { return idxHeadSize }
func (h idxHead) pointersAt() int64 { return h.lengthsAt() + 4*h.sequences }
func (h idxHead) indexAt() int64    { return h.pointersAt() + 8*h.sequences }
func (h idxHead) modesAt() int64    { return h.indexAt() + 8*(h.documents+1) }

// parseIdxHead reads the first idxHeadSize bytes of a file of that size, or all if it has fewer.
func parseIdxHead(head []byte, size int64) (h idxHead, err error) {
	if len(head) < idxHeadSize {
		return h, fmt.Errorf("%d bytes, the head alone has %d: cut, or not an .idx file of Megatron: %w", size, idxHeadSize, ErrIndex)
	}
	if string(head[:9]) != idxMagic {
		return h, fmt.Errorf("it starts with %q, want %q: not an .idx file of Megatron (or one of its legacy format TNTIDX, which has to be converted): %w", head[:9], idxMagic, ErrIndex)
	}
	if v := binary.LittleEndian.Uint64(head[9:]); v != idxVersion {
		return h, fmt.Errorf("version %d at offset 9, this program reads %d: %w", v, idxVersion, ErrVersion)
	}
	if h.dtype = dtypeOf(head[17]); h.dtype == "" {
		return h, fmt.Errorf("type code %d at offset 17, want 1 to 8: %w", head[17], ErrIndex)
	}
	h.size = TokenSize(h.dtype)
	return h, h.count(binary.LittleEndian.Uint64(head[18:]), binary.LittleEndian.Uint64(head[26:]), uint64(size))
}

// dtypeOf returns the NumPy name of the type that a code stands for, "" if it stands for none.
func dtypeOf(code byte) string {
	types := [...]string{"", "uint8", "int8", "int16", "int32", "int64", "float64", "float32", "uint16"}
	if int(code) >= len(types) {
		return ""
	}
	return types[code]
}

// count takes the two counts of the head, if the file has as many bytes as they need; that size alone tells whether there
// are modes.
func (h *idxHead) count(sequences, entries, size uint64) error {
	body := size - idxHeadSize
	if sequences > body/12 || entries > body/8 {
		return fmt.Errorf("it counts %d sequences and %d entries of the document array, which need more than its %d bytes: cut, or damaged at offset 18: %w", sequences, entries, size, ErrIndex)
	}
	if entries == 0 {
		return fmt.Errorf("its document array is empty, it has at least the entry 0: %w", ErrIndex)
	}
	plain := 12*sequences + 8*entries
	if body != plain && body != plain+sequences {
		return fmt.Errorf("%d bytes; %d sequences and %d entries of the document array need %d, or with modes %d: cut, still being written, or with something behind: %w",
			size, sequences, entries, idxHeadSize+plain, idxHeadSize+plain+sequences, ErrIndex)
	}
	h.sequences, h.documents, h.modal = int64(sequences), int64(entries)-1, body != plain
	return nil
}

// fields are those of a dataset made of the file.
func (h idxHead) fields() []Field {
	fields := []Field{{Name: TokensField, Kind: Tokens, Dtype: h.dtype}}
	if h.modal {
		fields = append(fields, Field{Name: ModeField, Kind: Int64})
	}
	return fields
}
