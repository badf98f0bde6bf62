package dcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// planner is metadata without tensors whose planner data is a pickle's opcodes.
func planner(payload string) []byte {
	return []byte("\x80\x02c" + dcpMetadata + "\nMetadata\n)\x81}(" + text("state_dict_metadata") + "}" + text("storage_data") + "}" +
		text("planner_data") + payload + "ub.")
}

func text(s string) string {
	return string(binary.LittleEndian.AppendUint32([]byte{'X'}, uint32(len(s)))) + s
}

func memo(opcode byte, n int) string {
	return string(binary.LittleEndian.AppendUint32([]byte{opcode}, uint32(n)))
}

func get(n int) string { return memo('j', n) }

func put(n int) string { return memo('r', n) }

// TestNothingForPythonToHashForEver refuses what Python would take for ever, or more stack than there is, to hash or to show.
func TestNothingForPythonToHashForEver(t *testing.T) {
	doubled := "](N\x85" + put(0)
	for n := range 60 {
		doubled += get(n) + get(n) + "\x86" + put(n+1)
	}
	head, last := "}("+text("doubled")+doubled+"e"+text("bomb"), get(60)
	for name, payload := range map[string]string{
		"a key":                  head + "}(" + last + "Nuu",
		"a key alone":            head + "}" + last + "Nsu",
		"an element":             head + "\x8f(" + last + "\x90u",
		"a frozen set's element": head + "(" + last + "\x91u",
		"a set's element":        head + "cbuiltins\nset\n](" + last + "e\x85Ru",
		"a frozenset's element":  head + "cbuiltins\nfrozenset\n(" + last + "t\x85Ru",
		"an enumeration's value": head + "c" + dcpPlanner + "\nWriteItemType\n" + last + "\x85Ru",
		"a deep key":             "}N" + strings.Repeat("\x85", 100_000) + "Ns",
		"a list as a key":        "}]Ns",
		"a dimension for ever":   "ctorch\nSize\n(" + strings.Repeat("K\x01", maxDimensions+1) + "t\x85R",
	} {
		if _, err := Decode(planner(payload)); !errors.Is(err, ErrFormat) && !errors.Is(err, ErrForbidden) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Decode(planner("}((K\x01" + text("a") + "tNu")); err != nil {
		t.Errorf("a flat key: %v", err)
	}
}

// TestMemoryOfCopiesIsBounded: what a pickle asks to be made of the same long value again and again takes no more than the pickle could.
func TestMemoryOfCopiesIsBounded(t *testing.T) {
	const n, times = 50_000, 5_000
	again := func(first, each string) []byte {
		return planner("}(" + text("first") + first + text("all") + "](" + strings.Repeat(each, times) + "eu")
	}
	nones := "](" + strings.Repeat("N", n) + "e" + put(0)
	sizes := "(" + strings.Repeat("K\x01", maxDimensions) + "t" + put(0)
	call := func(global string) string { return "c" + global + "\n" + get(0) + "\x85R" }
	build := func(global string) string { return "c" + global + "\n)\x81" + get(1) + "b" }
	attributes := func(names ...string) string {
		all := "}("
		for _, name := range names {
			all += text(name) + get(0)
		}
		return all + "u" + put(1)
	}
	many := "}("
	for k := range n / 10 {
		many += text(fmt.Sprint(k)) + "N"
	}
	for name, data := range map[string][]byte{
		"set":        again(nones, call("builtins\nset")),
		"list":       again(nones, call("builtins\nlist")),
		"size":       again(sizes, call("torch\nSize")),
		"path":       again(text(strings.Repeat("x", n))+put(0), call("pathlib\nPath")),
		"chunk":      again("("+sizes+attributes("offsets", "sizes")+"t", build(dcpMetadata+"\nChunkStorageMetadata")),
		"transforms": again("(]("+strings.Repeat(text(""), n)+"e"+put(0)+attributes("transform_descriptors")+"t", build("torch.distributed.checkpoint.filesystem\n_StorageInfo")),
		"attributes": again("(]"+put(0)+many+"u"+put(1)+"t", build(dcpMetadata+"\nStorageMeta")),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Decode(data)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 100*uint64(len(data))+8<<20 {
			t.Errorf("%s: %d bytes taken for a pickle of %d: %v", name, took, len(data), err)
		}
		if err != nil && !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
