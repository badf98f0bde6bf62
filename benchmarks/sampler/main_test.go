package main

import "testing"

// The measurement itself runs and its gates hold; bars are not judged on a machine that runs tests.
func TestOneRound(t *testing.T) {
	cases, err := allCases()
	if err != nil {
		t.Fatal(err)
	}
	for i := range cases {
		cases[i].calls = 10
		if line := cases[i].measure(); cases[i].values[0] <= 0 {
			t.Errorf("%s", line)
		}
	}
	if err := checkBijective(1<<12 + 1); err != nil {
		t.Error(err)
	}
	if _, err := report(0, ""); err == nil {
		t.Error("no rounds give a report")
	}
}
