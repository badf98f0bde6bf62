package catalogue

import (
	"testing"

	"github.com/stepahead-io/stepahead/internal/hdfstest"
)

func TestMain(m *testing.M) { hdfstest.Main(m) }
