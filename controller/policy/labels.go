package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stepahead-io/stepahead/store"
)

// LabelsFile is the name of the file with the labels of a checkpoint: one JSON object of texts, such as {"data": "patients"}. In the checkpoint's folder it is
// part of the version, and so carried with each copy; in the folder that holds checkpoints it counts for all of them, but for what theirs say otherwise.
const LabelsFile = ".stepahead-labels.json"

const (
	maxLabelsFile = 64 << 10
	maxLabels     = 64
	maxKey        = 128
	maxLabel      = 256
)

// LabelsOf reads the labels of the checkpoint at a path, a folder or a file; none is no error. After an error the labels are not known, and nothing may be
// decided by them: the checkpoint counts as not whole.
func LabelsOf(ctx context.Context, st store.Store, checkpoint string) (map[string]string, error) {
	all := make(map[string]string)
	folders := []string{path.Dir(checkpoint)}
	info, err := st.Stat(ctx, checkpoint)
	if err != nil {
		return nil, err
	}
	if info.Dir {
		folders = append(folders, checkpoint)
	}
	for _, folder := range folders {
		name := path.Join(folder, LabelsFile)
		data, err := store.ReadFile(ctx, st, name, maxLabelsFile)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = ParseLabels(data, all)
		}
		if err != nil {
			return nil, fmt.Errorf("labels %s: %w", st.Address(name), err)
		}
	}
	return all, nil
}

// ParseLabels reads the text of a file of labels into a map, over what it has.
func ParseLabels(data []byte, to map[string]string) error {
	d := json.NewDecoder(bytes.NewReader(data))
	const want = `want one JSON object of texts, such as {"data": "patients"}`
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.New(want)
	}
	seen := make(map[string]bool)
	for d.More() {
		k, err := d.Token()
		if err != nil {
			return fmt.Errorf("%s: %w", want, err)
		}
		v, err := d.Token()
		if err != nil {
			return fmt.Errorf("%s: %w", want, err)
		}
		key, _ := k.(string)
		text, isText := v.(string)
		switch {
		case !isText:
			return fmt.Errorf("label %q is not a text: %s", key, want)
		case seen[key]:
			return fmt.Errorf("label %q is there twice", key)
		case len(seen) == maxLabels:
			return fmt.Errorf("more than %d labels", maxLabels)
		}
		if err := checkLabel(key, text); err != nil {
			return err
		}
		seen[key] = true
		to[key] = text
	}
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("%s: %w", want, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more behind the object: " + want)
	}
	return nil
}

// checkLabel refuses what is no label.
func checkLabel(key, text string) error {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789._/-"
	switch {
	case key == "" || len(key) > maxKey || strings.Trim(key, letters) != "":
		return fmt.Errorf("%q is no key of a label: write up to %d of a-z, 0-9, dot, underscore, slash and hyphen", key, maxKey)
	case len(text) > maxLabel || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return fmt.Errorf("label %q: a value has up to %d bytes of UTF-8 without control characters", key, maxLabel)
	}
	return nil
}
