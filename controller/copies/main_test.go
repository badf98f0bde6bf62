package copies

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/stepahead-io/stepahead/internal/hdfstest"
)

const childEnv = "COPIES_TEST_CHILD"

// TestMain runs this program also as the processes that tests kill.
func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		hdfstest.Main(m)
		return
	}
	var c child
	err := json.NewDecoder(os.Stdin).Decode(&c)
	if err == nil {
		err = c.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
