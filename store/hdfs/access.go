package hdfs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"sync"

	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
)

// MayRead returns nil if user may read the file called name now, and an error that matches fs.ErrPermission if he may not.
// The NameNode is asked as that user, which it must allow to the store's own (hadoop.proxyuser); where it does not, nobody
// may read. A user is a short name, as HDFS writes owners.
func (s *Store) MayRead(ctx context.Context, user, name string) error {
	if err := s.mayRead(ctx, user, name); err != nil {
		return s.failed("MayRead", name, fmt.Errorf("as %.128q: %w", user, explained(err)))
	}
	return nil
}

// impersonation is how a NameNode refuses that one acts as another; the first may be a principal.
var impersonation = regexp.MustCompile(`User: ([^\s/@]+)\S*.* is not allowed to impersonate`)

// explained says what lets the store's user act as others.
func explained(err error) error {
	var remote *namenode.RemoteError
	if !errors.As(err, &remote) {
		return err
	}
	m := impersonation.FindStringSubmatch(remote.Message)
	if m == nil {
		return err
	}
	return fmt.Errorf("%w: set hadoop.proxyuser.%s.users (or .groups) and hadoop.proxyuser.%s.hosts in the NameNodes' core-site.xml, then run "+
		"hdfs dfsadmin -refreshSuperUserGroupsConfiguration: %w", fs.ErrPermission, m[1], m[1], err)
}

func (s *Store) mayRead(ctx context.Context, user, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	c, err := s.others.acquire(user)
	if err != nil {
		return err
	}
	defer s.others.release(user)
	return c.CheckAccess(ctx, s.path(name), hproto.CheckAccessRequest_READ)
}

// maxOthers bounds the users for whom a client is kept. One without calls holds no connection after some seconds.
const maxOthers = 256

// others holds clients that call as other users, each with connections of its own.
type others struct {
	options func(user string) (namenode.Options, error)

	mu      sync.Mutex
	clients map[string]*other
	turn    int64
	closed  bool
}

type other struct {
	client *namenode.Client
	calls  int
	used   int64 // turn of its latest use
}

// otherAuth is an Authenticator that can act as somebody else.
type otherAuth interface {
	As(user string) (namenode.Authenticator, error)
}

func newOthers(own namenode.Options) *others {
	return &others{clients: map[string]*other{}, options: func(user string) (namenode.Options, error) {
		o := own
		if own.Auth == nil {
			o.User, o.RealUser = user, cmp.Or(own.RealUser, own.User)
			if o.User == o.RealUser {
				o.RealUser = "" // acting as oneself needs no right
			}
			return o, nil
		}
		a, ok := own.Auth.(otherAuth)
		if !ok {
			return o, fmt.Errorf("%w: these credentials cannot act as other users", fs.ErrPermission)
		}
		var err error
		o.Auth, err = a.As(user)
		return o, err
	}}
}

// acquire returns the client of a user, which the caller releases.
func (p *others) acquire(user string) (*namenode.Client, error) {
	if user == "" || strings.ContainsAny(user, "/@\x00") {
		return nil, fmt.Errorf("%w: %.128q is no short name of a user", fs.ErrPermission, user)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, fs.ErrClosed
	}
	p.turn++
	e := p.clients[user]
	if e == nil {
		o, err := p.options(user)
		if err != nil {
			return nil, err
		}
		if len(p.clients) >= maxOthers {
			p.dropIdle()
		}
		e = &other{client: namenode.New(o)}
		p.clients[user] = e
	}
	e.calls++
	e.used = p.turn
	return e.client, nil
}

func (p *others) release(user string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.clients[user]; e != nil {
		e.calls--
	}
}

// dropIdle closes the client that nobody has used for longest. Where all are in use, one more is kept for a while.
func (p *others) dropIdle() {
	oldest := ""
	for user, e := range p.clients {
		if e.calls == 0 && (oldest == "" || e.used < p.clients[oldest].used) {
			oldest = user
		}
	}
	if oldest != "" {
		_ = p.clients[oldest].client.Close() // no call runs on it
		delete(p.clients, oldest)
	}
}

// close ends all calls.
func (p *others) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	var errs []error
	for _, e := range p.clients {
		errs = append(errs, e.client.Close())
	}
	return errors.Join(errs...)
}
