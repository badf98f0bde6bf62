package image

// #include "stage.h"
import "C"

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// orientationOf returns the EXIF orientation of an encoded image, 1 to 8. The rule is one for all formats: tag 0x0112 of
// the first directory, one number of 16 bits, in either byte order. Whatever is missing, broken or out of range counts
// as 1. XMP and the profiles in PNG texts are not looked at.
func orientationOf(f C.int32_t, in []byte) int {
	switch f {
	case C.SA_JPEG:
		return exifOrientation(jpegEXIF(in))
	case C.SA_PNG:
		return exifOrientation(pngEXIF(in))
	case C.SA_WEBP:
		return exifOrientation(webpEXIF(in))
	}
	return 1
}

const exifPrefix = "Exif\x00\x00"

// exifOrientation reads the orientation from EXIF data, a TIFF file with or without the prefix that JPEG asks for.
func exifOrientation(data []byte) int {
	data = bytes.TrimPrefix(bytes.TrimPrefix(data, []byte(exifPrefix)), []byte(exifPrefix))
	if len(data) < 8 {
		return 1
	}
	var order binary.ByteOrder = binary.LittleEndian
	switch string(data[:4]) {
	case "II*\x00":
	case "MM\x00*":
		order = binary.BigEndian
	default:
		return 1
	}
	at := uint64(order.Uint32(data[4:]))
	if at+2 > uint64(len(data)) {
		return 1
	}
	count, entries := int(order.Uint16(data[at:])), data[at+2:]
	return orientationEntry(order, entries[:min(12*count, len(entries))])
}

// orientationEntry reads a directory; of several orientations the last counts.
func orientationEntry(order binary.ByteOrder, entries []byte) int {
	const tag, short = 0x0112, 3
	found := 1
	for ; len(entries) >= 12; entries = entries[12:] {
		if order.Uint16(entries) != tag || order.Uint16(entries[2:]) != short || order.Uint32(entries[4:]) != 1 {
			continue
		}
		if found = int(order.Uint16(entries[8:])); found < 1 || found > 8 {
			found = 1
		}
	}
	return found
}

// jpegEXIF returns the EXIF data of a JPEG, which may be spread over several segments before its first scan.
func jpegEXIF(in []byte) []byte {
	var exif []byte
	for {
		marker, body, rest := nextSegment(in)
		if marker == 0 {
			return exif
		}
		if marker == 0xE1 && bytes.HasPrefix(body, []byte(exifPrefix)) {
			exif = append(exif, body[len(exifPrefix):]...)
		}
		in = rest
	}
}

// nextSegment returns the next marker of a JPEG, what it holds, and what follows; junk before it is passed over. At the first
// scan, and where the data end, the marker is 0.
func nextSegment(in []byte) (marker byte, body, rest []byte) {
	const scan = 0xDA
	for marker == 0 || marker == 0xFF { // escaped, and padding
		at := bytes.IndexByte(in, 0xFF)
		if at < 0 || at+1 >= len(in) {
			return 0, nil, nil
		}
		marker, in = in[at+1], in[at+1:]
	}
	in = in[1:]
	if marker == scan {
		return 0, nil, nil
	}
	if marker < 0xC0 || marker == 0xC8 || marker >= 0xD0 && marker <= 0xD9 || marker >= 0xF0 && marker <= 0xFD {
		return marker, nil, in // these hold nothing
	}
	if len(in) < 2 {
		return 0, nil, nil
	}
	n := int(binary.BigEndian.Uint16(in))
	if n < 2 || n > len(in) {
		return 0, nil, nil
	}
	return marker, in[2:n], in[n:]
}

// pngEXIF returns the last eXIf chunk whose checksum is right; there should be one, before or behind the pixels.
func pngEXIF(in []byte) []byte {
	const signature, around = 8, 12 // length, name, checksum
	var exif []byte
	for at := signature; at+around <= len(in); {
		n := int64(binary.BigEndian.Uint32(in[at:]))
		if n > int64(len(in)-at-around) {
			break
		}
		name, end := in[at+4:at+8], at+8+int(n)
		if string(name) == "eXIf" && crc32.ChecksumIEEE(in[at+4:end]) == binary.BigEndian.Uint32(in[end:]) {
			exif = in[at+8 : end]
		}
		at = end + 4
	}
	return exif
}

// webpEXIF returns the first EXIF chunk.
func webpEXIF(in []byte) []byte {
	const header = 12 // RIFF, length, WEBP
	for at := header; at+8 <= len(in); {
		n := int64(binary.LittleEndian.Uint32(in[at+4:]))
		if n > int64(len(in)-at-8) {
			return nil
		}
		if string(in[at:at+4]) == "EXIF" {
			return in[at+8:][:n]
		}
		at += 8 + int(n+n&1)
	}
	return nil
}
