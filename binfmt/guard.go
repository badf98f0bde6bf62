package binfmt

import (
	"encoding/binary"
	"fmt"
)

// Numbers of Arrow's flatbuffer schemas (Schema.fbs, Message.fbs, File.fbs).
const (
	footerSchema, footerDictionaries, footerBatches          = 1, 2, 3
	schemaEndianness, schemaFields, schemaMetadata           = 0, 1, 2
	fieldName, fieldDictionary, fieldChildren, fieldMetadata = 0, 4, 5, 6
	messageHeaderType, messageHeader, messageMetadata        = 1, 2, 4
	batchNodes, batchBuffers, batchCompression               = 1, 2, 3
	headerRecordBatch                                        = 3
	blockSize, nodeSize, bufferSize                          = 24, 16, 16
)

const (
	arrowMagic       = "ARROW1"
	maxArrowMetadata = 64 << 20
	maxSchemaStrings = 64
	maxSchemaString  = 4096
	maxTextPerBatch  = 1<<31 - 1
)

// arrowGuard checks the structure of an Arrow file against a layout before the library reads it.
type arrowGuard struct {
	data    []byte
	layout  layout
	samples int64
}

// check returns nil if the file has exactly the tables, columns, batches and buffers that the
// layout demands, all of them inside the file.
func (g arrowGuard) check() error {
	footer, err := g.footer()
	if err != nil {
		return err
	}
	if err := g.checkSchema(footer); err != nil {
		return err
	}
	if _, n, err := footer.vector(footerDictionaries, blockSize); err != nil || n != 0 {
		return fmt.Errorf("the index has %d dictionaries, want none (%v)", n, err)
	}
	start, n, err := footer.vector(footerBatches, blockSize)
	if err != nil {
		return err
	}
	if want := (g.samples + BatchRows - 1) / BatchRows; n != want {
		return fmt.Errorf("the index has %d record batches, %d samples need %d", n, g.samples, want)
	}
	for i := range n {
		b := footer.buf[start+i*blockSize:]
		rows := min(BatchRows, g.samples-i*BatchRows)
		off, meta, body := le64(b), int64(int32(binary.LittleEndian.Uint32(b[8:]))), le64(b[16:])
		if err := g.checkBatch(off, meta, body, rows); err != nil {
			return fmt.Errorf("record batch %d at offset %d: %w", i, off, err)
		}
	}
	return nil
}

func le64(b []byte) int64 { return int64(binary.LittleEndian.Uint64(b)) }

func (g arrowGuard) footer() (flatTable, error) {
	n := int64(len(g.data))
	const tail = 4 + int64(len(arrowMagic))
	if n < 8+tail || string(g.data[:6]) != arrowMagic {
		return flatTable{}, fmt.Errorf("%d bytes that do not start with %s: not an Arrow file, or cut", n, arrowMagic)
	}
	if string(g.data[n-6:]) != arrowMagic {
		return flatTable{}, fmt.Errorf("the %d bytes do not end with %s: the file is cut, or still being written", n, arrowMagic)
	}
	size := int64(binary.LittleEndian.Uint32(g.data[n-tail:]))
	if size > n-tail-8 || size > maxArrowMetadata {
		return flatTable{}, fmt.Errorf("a footer of %d bytes does not fit into %d bytes", size, n)
	}
	return flatRoot(g.data[n-tail-size : n-tail])
}

func (g arrowGuard) checkSchema(footer flatTable) error {
	schema, ok, err := footer.table(footerSchema)
	if err != nil || !ok {
		return fmt.Errorf("the footer has no schema (%v)", err)
	}
	// A big-endian file would be swapped in place, which a read-only mapping does not survive.
	if e, err := schema.u16(schemaEndianness); err != nil || e != 0 {
		return fmt.Errorf("the schema is not little-endian (%v)", err)
	}
	start, n, err := schema.vector(schemaFields, 4)
	if err != nil {
		return err
	}
	if n != int64(len(g.layout.columns)) {
		return fmt.Errorf("the schema has %d columns, the manifest's fields need %d", n, len(g.layout.columns))
	}
	for i, c := range g.layout.columns {
		f, err := schema.element(start, int64(i))
		if err != nil {
			return err
		}
		if err := checkField(f, c); err != nil {
			return fmt.Errorf("column %d: %w", i, err)
		}
	}
	return checkSchemaMetadata(schema)
}

func checkField(f flatTable, c column) error {
	start, n, err := f.vector(fieldName, 1)
	if err != nil {
		return err
	}
	if name := f.buf[start : start+n]; string(name) != c.name {
		return fmt.Errorf("the name is %.100q, want %q", name, c.name)
	}
	for _, slot := range []int64{fieldDictionary, fieldChildren, fieldMetadata} {
		pos, err := f.field(slot, 4)
		if err != nil {
			return err
		}
		if pos == 0 {
			continue
		}
		if _, n, err := f.vector(slot, 4); slot == fieldDictionary || err != nil || n != 0 {
			return fmt.Errorf("%q is not a plain column (slot %d, %v)", c.name, slot, err)
		}
	}
	return nil
}

func checkSchemaMetadata(schema flatTable) error {
	start, n, err := schema.vector(schemaMetadata, 4)
	if err != nil {
		return err
	}
	if n > maxSchemaStrings {
		return fmt.Errorf("the schema has %d metadata entries, more than %d", n, maxSchemaStrings)
	}
	for i := range n {
		kv, err := schema.element(start, i)
		if err != nil {
			return err
		}
		for slot := range int64(2) {
			if _, length, err := kv.vector(slot, 1); err != nil || length > maxSchemaString {
				return fmt.Errorf("schema metadata %d has %d bytes, more than %d (%v)", i, length, maxSchemaString, err)
			}
		}
	}
	return nil
}

func (g arrowGuard) checkBatch(off, meta, body, rows int64) error {
	n := int64(len(g.data))
	if off < 8 || off%8 != 0 || meta < 8 || meta > maxArrowMetadata || body < 0 || off > n-meta || body > n-meta-off {
		return fmt.Errorf("%d bytes of metadata and %d of body do not fit into a file of %d bytes", meta, body, n)
	}
	block := g.data[off : off+meta]
	if binary.LittleEndian.Uint32(block) != 0xffffffff || int64(binary.LittleEndian.Uint32(block[4:])) != meta-8 {
		return fmt.Errorf("the message's length does not match the footer's %d", meta)
	}
	msg, err := flatRoot(block[8:])
	if err != nil {
		return err
	}
	if t, err := msg.u8(messageHeaderType); err != nil || t != headerRecordBatch {
		return fmt.Errorf("message type %d, want a record batch (%v)", t, err)
	}
	if _, n, err := msg.vector(messageMetadata, 4); err != nil || n != 0 {
		return fmt.Errorf("a message with %d metadata entries, want none (%v)", n, err)
	}
	batch, ok, err := msg.table(messageHeader)
	if err != nil || !ok {
		return fmt.Errorf("a message without a header (%v)", err)
	}
	if pos, err := batch.field(batchCompression, 4); err != nil || pos != 0 {
		return fmt.Errorf("the batch is compressed, which cannot be mapped (%v)", err)
	}
	return g.checkBuffers(batch, body, rows)
}

// checkBuffers checks that every column has rows values, and bytes in the body for all of them.
func (g arrowGuard) checkBuffers(batch flatTable, body, rows int64) error {
	nodes, n, err := batch.vector(batchNodes, nodeSize)
	if err != nil || n != int64(len(g.layout.columns)) {
		return fmt.Errorf("%d columns, want %d (%v)", n, len(g.layout.columns), err)
	}
	buffers, n, err := batch.vector(batchBuffers, bufferSize)
	if err != nil {
		return err
	}
	next := int64(0)
	take := func() (int64, error) {
		if next >= n {
			return 0, fmt.Errorf("only %d buffers", n)
		}
		b := batch.buf[buffers+next*bufferSize:]
		next++
		off, length := le64(b), le64(b[8:])
		if off < 0 || length < 0 || off > body || length > body-off {
			return 0, fmt.Errorf("buffer %d, offset %d, length %d: outside the body of %d bytes", next-1, off, length, body)
		}
		return length, nil
	}
	for i, c := range g.layout.columns {
		node := batch.buf[nodes+int64(i)*nodeSize:]
		if err := checkColumn(c, rows, le64(node), le64(node[8:]), take); err != nil {
			return fmt.Errorf("column %q: %w", c.name, err)
		}
	}
	if next != n {
		return fmt.Errorf("%d buffers, the columns need %d", n, next)
	}
	return nil
}

func checkColumn(c column, rows, length, nulls int64, take func() (int64, error)) error {
	if length != rows {
		return fmt.Errorf("%d values, want %d", length, rows)
	}
	if nulls < 0 || nulls > rows || (nulls > 0 && !c.nullable) {
		return fmt.Errorf("%d nulls of %d values", nulls, rows)
	}
	valid, err := take()
	if err != nil {
		return err
	}
	if nulls > 0 && valid < (rows+7)/8 {
		return fmt.Errorf("%d bytes of validity for %d values", valid, rows)
	}
	values, err := take()
	if err != nil {
		return err
	}
	if need := c.width.bytes(rows); values < need {
		return fmt.Errorf("%d bytes for %d values, want %d", values, rows, need)
	}
	if c.width != varBytes {
		return nil
	}
	text, err := take()
	if err == nil && text > maxTextPerBatch {
		return fmt.Errorf("%d bytes of text, more than %d", text, maxTextPerBatch)
	}
	return err
}

// bytes returns how many bytes rows values need; for text, its offsets.
func (w width) bytes(rows int64) int64 {
	if w == varBytes {
		return 4 * (rows + 1)
	}
	return (rows*int64(w) + 7) / 8
}
