package recent

import "testing"

// TestForgets: the oldest go beyond the limit, and what is put anew stays as old as it was.
func TestForgets(t *testing.T) {
	m := New[int, int](3)
	for i := range 5 {
		m.Put(i, i)
		m.Put(i, -i)
		m.Put(0, 7) // which goes with the fourth, and then is the newest
	}
	want := map[int]int{0: 7, 3: -3, 4: -4}
	for k := range 6 {
		v, ok := m.Get(k)
		if w, there := want[k]; ok != there || v != w {
			t.Errorf("%d: %d, %t, want %d, %t", k, v, ok, w, there)
		}
	}
	if m.Len() != len(want) {
		t.Errorf("%d entries", m.Len())
	}
}
