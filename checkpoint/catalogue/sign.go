package catalogue

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// domain begins what is signed, so that a signature of anything else of ours is none of a row.
const domain = "stepahead-catalogue-row-v1\n"

// ErrSignature: a row's signature is wrong, or its key is not one that is trusted.
var ErrSignature = errors.New("the row's signature is wrong, or by a key that is not trusted")

// rowFile is a row as it lies in a store: JSON as Go writes it, with a newline. There is one spelling for each row: what is not byte for
// byte what encode makes of it is no row.
type rowFile struct {
	Row       Row    `json:"row"`
	Key       string `json:"key"`
	Signature []byte `json:"ed25519"`
}

// encode returns a row's file.
func encode(r Row, k Key) ([]byte, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	if k.sign == nil {
		return nil, errors.New("the key is empty: load it with LoadKey")
	}
	message, err := messageOf(r, k.ID)
	if err != nil {
		return nil, err
	}
	data, err := spell(rowFile{Row: r, Key: k.ID, Signature: k.sign(message)})
	if err == nil && len(data) > MaxRow {
		err = fmt.Errorf("%w: %d bytes, at most %d", ErrRow, len(data), MaxRow)
	}
	return data, err
}

// messageOf is what is signed.
func messageOf(r Row, keyID string) ([]byte, error) {
	row, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return append([]byte(domain+keyID+"\n"), row...), nil
}

func spell(f rowFile) ([]byte, error) {
	data, err := json.Marshal(f)
	return append(data, '\n'), err
}

// decode parses and checks a row's file, all but the signature.
func decode(data []byte) (rowFile, error) {
	fail := func(err error) (rowFile, error) { return rowFile{}, fmt.Errorf("%w: %w", ErrRow, err) }
	if len(data) > MaxRow {
		return fail(fmt.Errorf("%d bytes, at most %d", len(data), MaxRow))
	}
	var f rowFile
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return fail(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fail(fmt.Errorf("bytes after the object, at %d", d.InputOffset()))
	}
	if err := f.Row.Validate(); err != nil {
		return rowFile{}, err
	}
	if err := checkKeyID(f.Key); err != nil {
		return fail(fmt.Errorf("key: %w", err))
	}
	if len(f.Signature) != ed25519.SignatureSize {
		return fail(fmt.Errorf("ed25519: %d bytes, a signature has %d", len(f.Signature), ed25519.SignatureSize))
	}
	again, err := spell(f)
	if err != nil {
		return fail(err)
	}
	if !bytes.Equal(again, data) {
		return fail(errors.New("not spelled as rows are: keys in order, none twice, no spaces"))
	}
	return f, nil
}

// verify returns nil if one of the keys has signed.
func (f rowFile) verify(keys Keys) error {
	public, ok := keys[f.Key]
	if !ok {
		return fmt.Errorf("%w: it names the key %q", ErrSignature, f.Key)
	}
	message, err := messageOf(f.Row, f.Key)
	if err != nil {
		return err
	}
	if !ed25519.Verify(public, message, f.Signature) {
		return fmt.Errorf("%w: it is not what the key %q has signed", ErrSignature, f.Key)
	}
	return nil
}
