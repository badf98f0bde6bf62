package catalogue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/stepahead-io/stepahead/store"
)

const (
	// DamageFolder is where readers leave word, in the store of the row, of what is wrong with what a row leads to.
	DamageFolder = Folder + "/damaged"
	// MaxDamages is how many are read at a time.
	MaxDamages = 1000

	maxDamage = 8 << 10 // bytes of a file
	maxDetail = 1 << 10 // bytes of a detail, and of a file's name
)

// Damage says that a reader did not find what a row promises: wrong bytes, another version, or nothing. It is not signed: whoever acts on it looks for
// himself.
type Damage struct {
	Placement  uint64 `json:"placement"`
	Controller string `json:"controller"`
	// File is what is damaged, as the store of the row calls it outside.
	File   string `json:"file"`
	Detail string `json:"detail"`
}

// name is where word of a placement is left: once, whoever finds it first.
func (d Damage) name() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\n%s", d.Placement, d.Controller))
	return path.Join(DamageFolder, hex.EncodeToString(sum[:])+rowSuffix)
}

// ReportDamage leaves word of a damage in a store. If there is word of the same placement already, it does nothing.
func ReportDamage(ctx context.Context, st store.Store, d Damage) error {
	d.File, d.Detail = cut(d.File), cut(d.Detail)
	data, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("catalogue.ReportDamage: %w", err)
	}
	w, err := st.Create(ctx, d.name())
	if err == nil {
		defer w.Abort()
		if _, err = w.Write(append(data, '\n')); err == nil {
			err = w.Close()
		}
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("catalogue.ReportDamage %s: %w", st.Address(d.name()), err)
	}
	return nil
}

func cut(s string) string {
	if len(s) > maxDetail {
		s = s[:maxDetail]
	}
	return strings.ToValidUTF8(s, "?")
}

// ReadDamages returns what readers have left word of, sorted by the name of the file, of at most MaxDamages files. What is no such word is left out: see
// [ClearJunk]. No folder is none.
func ReadDamages(ctx context.Context, st store.Store) ([]Damage, error) {
	var found []Damage
	err := eachDamage(ctx, st, func(_ string, d Damage, is bool) error {
		if is {
			found = append(found, d)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("catalogue.ReadDamages: %w", err)
	}
	return found, nil
}

// ClearJunk removes of the files that [ReadDamages] looks at those that are no word of a damage: as long as they lie there, others are not looked at.
func ClearJunk(ctx context.Context, st store.Store) error {
	err := eachDamage(ctx, st, func(name string, _ Damage, is bool) error {
		if is {
			return nil
		}
		err := st.Remove(ctx, name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("catalogue.ClearJunk: %w", err)
	}
	return nil
}

// eachDamage reads the first MaxDamages files that may be word of a damage; is tells whether one is. One that cannot be read now is left out.
func eachDamage(ctx context.Context, st store.Store, f func(name string, d Damage, is bool) error) error {
	infos, err := st.List(ctx, DamageFolder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	looked := 0
	for _, i := range infos {
		if i.Dir || !strings.HasSuffix(i.Name, rowSuffix) {
			continue
		}
		if looked++; looked > MaxDamages {
			return nil
		}
		var d Damage
		is := false
		if i.Size <= maxDamage {
			data, err := store.ReadFile(ctx, st, i.Name, maxDamage)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				continue
			}
			is = json.Unmarshal(data, &d) == nil && d.name() == i.Name
		}
		if err := f(i.Name, d, is); err != nil {
			return err
		}
	}
	return nil
}

// ClearDamage removes the word of a damage. One that is gone is no error.
func ClearDamage(ctx context.Context, st store.Store, d Damage) error {
	if err := st.Remove(ctx, d.name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("catalogue.ClearDamage %s: %w", st.Address(d.name()), err)
	}
	return nil
}
