package image

import (
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/transform"
)

// decodeAll decodes a whole image.
func decodeAll(in []byte, lim Limits) (pixels []byte, width, height int, err error) {
	j := job{lim: lim.withDefaults(), variant: bestVariant()}
	p, err := j.open(in)
	if err != nil {
		return nil, 0, 0, err
	}
	defer p.close()
	s := newStage(p.width, p.height)
	pixels = make([]byte, s.bytes())
	return pixels, p.width, p.height, p.run(s, j.variant, j.lim, pixels)
}

// expected is one row of the table of what Pillow 13 makes of a file.
type expected struct {
	path, format, pillow, sha256 string
	width, height                int
}

func expectations(t *testing.T) []expected {
	f, err := os.Open(testdata.Path(t, "expect-images.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.Comma, r.LazyQuotes = '\t', true
	rows, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var all []expected
	for _, row := range rows[1:] {
		e := expected{path: row[0], format: row[1], pillow: row[7], sha256: row[8]}
		e.width, _ = strconv.Atoi(row[2])
		e.height, _ = strconv.Atoi(row[3])
		all = append(all, e)
	}
	return all
}

func kindOf(err error) transform.ErrorKind {
	var e *transform.Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

func TestSurvey(t *testing.T) {
	for _, e := range expectations(t) {
		in, err := os.ReadFile(filepath.Join(testdata.Path(t, ""), e.path))
		if err != nil {
			t.Fatal(err)
		}
		pixels, w, h, err := decodeAll(in, Limits{})
		sum := sha256.Sum256(pixels)
		switch {
		case err != nil && e.pillow == "ok" && (e.format == "JPEG" || e.format == "PNG" || e.format == "MPO"):
			t.Logf("WE-REFUSE %s %s %v", e.path, e.format, err)
		case err == nil && e.pillow != "ok":
			t.Logf("PILLOW-REFUSES %s %s %d %d", e.path, e.pillow, w, h)
		case err == nil && hex.EncodeToString(sum[:]) != e.sha256:
			t.Logf("DIFFERS %s %s %d %d / %d %d", e.path, e.format, w, h, e.width, e.height)
		case err != nil && kindOf(err) == "":
			t.Errorf("NOKIND %s %v", e.path, err)
		case err != nil && !strings.HasPrefix(e.path, "fuzz"):
			t.Logf("both %s %s %v", e.path, e.pillow, err)
		}
	}
}
