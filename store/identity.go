package store

import "fmt"

// IdentityError says that a file is not the version any more that was opened. It matches ErrIdentity.
type IdentityError struct {
	Name string // the file's Address
	// Pinned is the version that was opened, Now the one that is there; "" if there is none.
	Pinned, Now Identity
}

func (e *IdentityError) Error() string {
	if e.Now == "" {
		return fmt.Sprintf("identity changed: %s: opened as %s, now there is no such file", e.Name, e.Pinned)
	}
	return fmt.Sprintf("identity changed: %s: opened as %s, now %s: open it again", e.Name, e.Pinned, e.Now)
}

// Unwrap makes the error match ErrIdentity.
func (e *IdentityError) Unwrap() error { return ErrIdentity }
