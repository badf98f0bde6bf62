// Package auth knows who may ask an agent or a controller for what: the tokens of jobs, and the keys that
// sign them.
package auth

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The rights that a token can carry.
const (
	// RightFetch: ask for tensors and raw bytes of samples.
	RightFetch = "fetch"
	// RightHint: announce what a job will need; of the controller's placements, see and revoke those of the job.
	RightHint = "hint"
	// RightRelay: read what jobs have announced of checkpoints and starts, as the controller does.
	RightRelay = "relay"
	// RightView: see the controller's placements, of whatever job.
	RightView = "view"
	// RightOperate: see and revoke them, and, with the root "/", drain and sweep.
	RightOperate = "operate"
)

// rights are all there are.
func rights() []string {
	return []string{RightFetch, RightHint, RightRelay, RightView, RightOperate}
}

// Why a token or a request is refused.
var (
	// ErrToken: there is no token, or it is not one that any key of ours has made.
	ErrToken = errors.New("not a token")
	// ErrSignature: the token's signature is wrong, or its key is unknown here.
	ErrSignature = errors.New("the token's signature is wrong")
	// ErrExpired: the token was good and has expired.
	ErrExpired = errors.New("the token has expired")
	// ErrRight: the token does not carry the right.
	ErrRight = errors.New("the token does not carry the right")
	// ErrRoot: the path is not under a root of the token.
	ErrRoot = errors.New("the path is outside the token's roots")
	// ErrJob: the token is of another job.
	ErrJob = errors.New("the token is of another job")
)

const (
	maxText  = 256  // bytes of a job, user or key id
	maxRoots = 64   // a token travels with every call
	maxRoot  = 1024 // bytes of one root
)

// Claims are what a token says: the holder acts for User and Job, under Roots, with Rights, until Expires.
type Claims struct {
	// KeyID names the key that signed; Mint sets it.
	KeyID string
	Job   string
	User  string
	// Roots are absolute clean paths inside the store. "/a/b" covers "/a/b" and "/a/b/c", not "/a/bc".
	Roots []string
	// Rights are some of the constants above.
	Rights []string
	// Expires is kept in whole seconds.
	Expires time.Time

	anyJob bool // of an Insecure keyring
}

// Validate returns all that is wrong with c.
func (c Claims) Validate() error {
	var errs []error
	add := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("auth.Claims: %s: %w", what, err))
		}
	}
	add("key id", checkKeyID(c.KeyID))
	add("job", checkText(c.Job))
	add("user", checkText(c.User))
	if len(c.Roots) == 0 || len(c.Roots) > maxRoots {
		add("roots", fmt.Errorf("%d given: give 1 to %d", len(c.Roots), maxRoots))
	}
	for _, root := range c.Roots {
		add("roots", checkRoot(root))
	}
	if len(c.Rights) == 0 {
		add("rights", fmt.Errorf("none given: give some of %s", strings.Join(rights(), ", ")))
	}
	for i, right := range c.Rights {
		if !slices.Contains(rights(), right) || slices.Contains(c.Rights[:i], right) {
			add("rights", fmt.Errorf("%q: known, and to be given once, are %s", right, strings.Join(rights(), ", ")))
		}
	}
	if year := c.Expires.UTC().Year(); year < 2000 || year > 9999 {
		add("expires", fmt.Errorf("year %d: give 2000 to 9999", year))
	}
	return errors.Join(errs...)
}

func checkText(s string) error {
	switch {
	case s == "":
		return errors.New("empty")
	case len(s) > maxText:
		return fmt.Errorf("%d bytes are more than %d", len(s), maxText)
	case !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("%.32q: holds bytes that cannot be printed", s)
	}
	return nil
}

func checkRoot(root string) error {
	switch {
	case strings.Contains(root, "://"):
		return fmt.Errorf("%.64q: a URL: give the path inside the store", root)
	case !strings.HasPrefix(root, "/") || path.Clean(root) != root:
		return fmt.Errorf("%.64q: not an absolute, clean path", root)
	case len(root) > maxRoot:
		return fmt.Errorf("%.64q...: %d bytes are more than %d", root, len(root), maxRoot)
	case !utf8.ValidString(root) || strings.ContainsRune(root, 0):
		return fmt.Errorf("%.64q: holds NUL or bytes that are not UTF-8", root)
	}
	return nil
}

// Allows returns nil if the holder may use right on a path inside the store, else an error that matches
// ErrRight or ErrRoot. A path that is not absolute and clean is under no root: a store could read it in
// another way. It does not follow symbolic links; a store must not let one leave its root.
func (c Claims) Allows(right, name string) error {
	if !c.Has(right) {
		return fmt.Errorf("%w: %s is needed, it has %s: mint one with --rights %s", ErrRight, right, strings.Join(c.Rights, ","), right)
	}
	return c.Covers(name)
}

// Has tells whether the holder has a right.
func (c Claims) Has(right string) bool { return slices.Contains(c.Rights, right) }

// Covers returns nil if a path inside the store is under a root, as [Claims.Allows] has it, else an error that matches ErrRoot.
func (c Claims) Covers(name string) error {
	if !strings.HasPrefix(name, "/") || path.Clean(name) != name || strings.ContainsRune(name, 0) {
		return fmt.Errorf("%w: %.128q is not an absolute, clean path", ErrRoot, name)
	}
	for _, root := range c.Roots {
		if root == "/" || name == root || strings.HasPrefix(name, root+"/") {
			return nil
		}
	}
	return fmt.Errorf("%w: %.128q is not under %s", ErrRoot, name, strings.Join(c.Roots, " or "))
}

// ForJob returns nil if the holder may act for the job, else an error that matches ErrJob.
func (c Claims) ForJob(job string) error {
	if c.anyJob || job == c.Job && job != "" {
		return nil
	}
	return fmt.Errorf("%w: it is of %q, the request of %.64q: leave job= out or mint a token for that job", ErrJob, c.Job, job)
}
