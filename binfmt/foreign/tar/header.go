package tar

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// block is the unit of a tar file.
const block = 512

// Types of members, as the header's type byte says.
const (
	typeOld     = 0
	typeRegular = '0'
	typeHard    = '1'
	typeFifo    = '6'
	typeCont    = '7'
	typeSparse  = 'S'
	typeLongTo  = 'K'
	typeLong    = 'L'
	typePax     = 'x'
	typePaxSun  = 'X'
	typeGlobal  = 'g'
	typeFolder  = '5'
)

// header is what one header block says.
type header struct {
	name  string // raw bytes
	size  int64
	typ   byte
	posix bool // magic of POSIX, so that the prefix is a prefix
	pre   string
}

// errEnd: the block is zero, the end of the archive.
var errEnd = errors.New("end of archive")

// parseHeader reads one block of 512 bytes. Every number is looked at, as Python's tarfile does, which takes a
// header with a number that is none for the end of the archive.
func parseHeader(b []byte) (header, error) {
	if allZero(b) {
		return header{}, errEnd
	}
	sum, err := number(b[148:156])
	if err != nil {
		return header{}, fmt.Errorf("the checksum: %w", err)
	}
	if plain, signed := checksums(b); sum != plain && sum != signed {
		return header{}, fmt.Errorf("the checksum is %d, the block's bytes give %d", sum, plain)
	}
	for _, f := range []struct {
		name     string
		from, to int
	}{{"mode", 100, 108}, {"uid", 108, 116}, {"gid", 116, 124}, {"mtime", 136, 148}, {"device", 329, 337}, {"device", 337, 345}} {
		if _, err := number(b[f.from:f.to]); err != nil && !errors.Is(err, errRange) {
			return header{}, fmt.Errorf("the %s: %w", f.name, err)
		}
	}
	h := header{name: text(b[:100]), typ: b[156], posix: string(b[257:263]) == "ustar\x00", pre: text(b[345:500])}
	if h.size, err = number(b[124:136]); err != nil {
		return header{}, fmt.Errorf("the size: %w", err)
	}
	if h.typ == typeOld && strings.HasSuffix(h.name, "/") {
		h.typ = typeFolder
	}
	return h, nil
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// checksums adds the bytes of a block, its checksum field taken as blanks, as unsigned and, as some old
// programs do, as signed numbers.
func checksums(b []byte) (plain, signed int64) {
	for i, c := range b {
		if i >= 148 && i < 156 {
			c = ' '
		}
		plain += int64(c)
		signed += int64(int8(c))
	}
	return plain, signed
}

// text is a field up to its first NUL.
func text(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// errRange: a number that does not fit into 64 bits.
var errRange = errors.New("outside 64 bits")

// number reads octal text, or base 256 where bit 7 of the first byte is set.
func number(b []byte) (int64, error) {
	if b[0] == 0x80 || b[0] == 0xff {
		return base256(b)
	}
	s := strings.TrimSpace(text(b))
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 8, 64)
	if err != nil {
		return 0, fmt.Errorf("%.12q is no octal number", s)
	}
	return n, nil
}

// base256 reads a big-endian number behind the marking byte, negative in two's complement after ff.
func base256(b []byte) (int64, error) {
	fill := byte(0)
	if b[0] == 0xff {
		fill = 0xff
	}
	n := int64(int8(fill))
	for _, c := range b[1:] {
		if n > math.MaxInt64>>8 || n < math.MinInt64>>8 {
			return 0, fmt.Errorf("% x: %w", b, errRange)
		}
		n = n<<8 | int64(c)
	}
	return n, nil
}

// hasData says whether size bytes follow a header of that type. Links, folders and devices have none, whatever
// their size says; of unknown types the data are passed over.
func hasData(typ byte) bool { return typ < typeHard || typ > typeFifo }

// isFile says whether a member of that type is a file.
func isFile(typ byte) bool { return typ == typeOld || typ == typeRegular || typ == typeCont }
