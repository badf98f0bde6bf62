package hints

import (
	"fmt"

	"github.com/stepahead-io/stepahead/internal/auth"
)

// TokenJob returns the id of the job that a token is of: agents take hints and fetches for no other. It
// does not verify the token, which only agents can. The error never holds the token.
func TokenJob(token string) (string, error) {
	job, err := auth.JobOf(token)
	if err != nil {
		return "", fmt.Errorf("hints.TokenJob: %w", err)
	}
	return job, nil
}
