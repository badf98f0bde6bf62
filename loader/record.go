package loader

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// recorder writes proof records. A nil one takes nothing.
type recorder struct {
	lines *lines
}

// record is the proof record of one sample.
type record struct {
	Step     int64         `json:"step"`
	Position int64         `json:"position"`
	Sample   uint64        `json:"sample"`
	Fields   []recordField `json:"fields"`
}

type recordField struct {
	Name   string `json:"name"`
	Dtype  string `json:"dtype"`
	Shape  []int  `json:"shape"`
	SHA256 string `json:"sha256"`
}

func newRecorder(path string) (*recorder, error) {
	l, err := newLines(path)
	return &recorder{lines: l}, err
}

func (r *recorder) write(b *Batch) error {
	if r == nil {
		return nil
	}
	_, err := r.lines.file.Write(b.records)
	return err
}

// Close ends the file, durably.
func (r *recorder) Close() error {
	if r == nil {
		return nil
	}
	return r.lines.Close()
}

// record makes the proof records of what is delivered.
func (b *build) record() []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	for slot, ref := range b.refs {
		r := record{Step: b.step, Position: ref.Position, Sample: ref.Sample}
		for i, f := range b.l.fields {
			sum := sha256.Sum256(b.logicalBytes(i, f, slot))
			r.Fields = append(r.Fields, recordField{Name: f.name, Dtype: b.fields[i].Dtype,
				Shape: append([]int{}, b.fields[i].Shape[1:]...), SHA256: hex.EncodeToString(sum[:])})
		}
		if err := enc.Encode(r); err != nil {
			panic(err) // numbers and names always encode
		}
	}
	return out.Bytes()
}

// logicalBytes returns one sample's bytes of field i in C order of its logical shape.
func (b *build) logicalBytes(i int, f field, slot int) []byte {
	data := &b.fields[i]
	if data.Strings != nil {
		return []byte(data.Strings[slot])
	}
	size := len(data.Bytes) / len(b.refs)
	sample := data.Bytes[slot*size : (slot+1)*size]
	if f.media < 0 || b.l.media[f.media].contiguous {
		return sample
	}
	out := make([]byte, size)
	planes(out, sample, b.delivered(f.media))
	return out
}
