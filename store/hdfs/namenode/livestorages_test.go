package namenode

import (
	"fmt"
	"testing"
)

// Types of storage are told where all nodes in service have them. The text is as Hadoop 3.5.0 writes it.
func TestStorageTypesOfAll(t *testing.T) {
	stats := func(types string) []byte {
		return []byte(`{"beans":[{"name":"Hadoop:service=NameNode,name=BlockStats","modelerType":"x","StorageTypeStats":[` + types + `]}]}`)
	}
	one := func(name string, nodes int) string {
		return fmt.Sprintf(`{"key":%q,"value":{"blockPoolUsed":24576,"capacityNonDfsUsed":0,"capacityRemaining":1,"capacityTotal":2,"capacityUsed":3,"nodesInService":%d}}`, name, nodes)
	}
	for _, c := range []struct {
		body []byte
		want string
	}{
		{stats(one("DISK", 9)), "[1]"},
		{stats(one("DISK", 9) + "," + one("ARCHIVE", 9)), "[1 3]"},
		{stats(one("DISK", 9) + "," + one("ARCHIVE", 5)), "[]"},
		{stats(one("HOLOGRAM", 9)), "[]"},
		{stats(""), "[]"},
		{[]byte(`{"beans":[]}`), "[]"},
		{[]byte(`{"beans":[{"StorageTypeStats":7}]}`), "[]"},
		{nil, "[]"},
	} {
		if got := fmt.Sprint(parseStorageTypes(c.body, 9)); got != c.want {
			t.Errorf("%.200s: %s, want %s", c.body, got, c.want)
		}
	}
	if got := parseStorageTypes(stats(one("DISK", 0)), 0); got != nil {
		t.Errorf("no node in service: %v", got)
	}
}
