package foreign

import "bytes"

// Compression names how a file is compressed, by its first bytes (at least 10, or all of a shorter file); "" if it is not, as far as
// they tell.
func Compression(head []byte) string {
	for _, s := range []struct{ magic, name string }{
		{"\x1f\x8b", "gzip"}, {"BZh", "bzip2"}, {"\xfd7zXZ\x00", "xz"}, {"\x28\xb5\x2f\xfd", "Zstandard"}, {"\x04\x22\x4d\x18", "LZ4"},
		{"\x1f\x9d", "compress"}, {"\xff\x06\x00\x00sNaPpY", "Snappy"}, {"PK\x03\x04", "zip"}, {"7z\xbc\xaf\x27\x1c", "7-Zip"},
	} {
		if bytes.HasPrefix(head, []byte(s.magic)) {
			return s.name
		}
	}
	return ""
}
