package transform

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	names := []string{"CenterCrop", "ColorJitter", "Pad", "RandomCrop", "RandomHorizontalFlip", "RandomResizedCrop", "Resize"}
	for name, want := range map[string]string{
		"randomresizedcrop":       "RandomResizedCrop",
		"RandomSizedCrop":         "RandomResizedCrop",
		"RandomResizeCrop":        "RandomResizedCrop",
		"CentreCrop":              "CenterCrop",
		"ColourJitter":            "ColorJitter",
		"HorizontalFlip":          "RandomHorizontalFlip",
		"Resise":                  "Resize",
		"RandomZoomOut":           "",
		"ToTensor":                "",
		"":                        "",
		"pa":                      "",
		"pad":                     "Pad",
		"Padding":                 "",
		strings.Repeat("Pad", 99): "",
	} {
		if got, found := nearest(name, names); got != want || found != (want != "") {
			t.Errorf("%q is taken for %q, %v, want %q", name, got, found, want)
		}
	}
}

func TestEditDistance(t *testing.T) {
	for pair, want := range map[[2]string]int{
		{"", ""}: 0, {"", "abc"}: 3, {"abc", ""}: 3, {"abc", "abc"}: 0, {"kitten", "sitting"}: 3, {"flaw", "lawn"}: 2, {"ab", "ba"}: 2,
	} {
		if got := editDistance(pair[0], pair[1]); got != want {
			t.Errorf("%q to %q are %d changes, want %d", pair[0], pair[1], got, want)
		}
	}
}
