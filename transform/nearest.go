package transform

import "strings"

// nearest returns the one of names that name is probably meant to be: case and up to a quarter of its letters may differ,
// or one holds the other. Names come from anyone, so one that is much longer than any is not looked at.
func nearest(name string, names []string) (string, bool) {
	const shortest, longest = 4, 64 // of names that hold each other, and of any
	if len(name) > longest {
		return "", false
	}
	lower := strings.ToLower(name)
	best, least := "", len(lower)/4+1
	for _, n := range names {
		if d := editDistance(lower, strings.ToLower(n)); d < least {
			best, least = n, d
		}
	}
	for _, n := range names {
		l := strings.ToLower(n)
		if best == "" && min(len(l), len(lower)) >= shortest && (strings.Contains(l, lower) || strings.Contains(lower, l)) {
			best = n
		}
	}
	return best, best != ""
}

// editDistance returns how many bytes must be put in, taken out or changed to make a into b (Levenshtein's distance).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1) // distances of a[:i] to each b[:j]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
