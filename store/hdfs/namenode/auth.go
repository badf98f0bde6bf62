package namenode

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/stepahead-io/stepahead/store/hdfs/conf"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/sasl"
	"github.com/stepahead-io/stepahead/store/hdfs/token"
)

// AuthOptions say by what a client can prove who calls. With neither Kerberos nor Tokens it can call clusters
// without security only.
type AuthOptions struct {
	// Cluster is the one whose NameNodes are called: tokens are for a cluster.
	Cluster conf.Cluster
	// Kerberos are the credentials of who calls.
	Kerberos *sasl.Credentials
	// Tokens gives the delegation tokens at hand. It is asked at each connection, so that tokens that
	// somebody replaces are found.
	Tokens func() (map[string]token.Token, error)
	// User, where it is set, is whom the owner of the Kerberos credentials acts as; the NameNode must allow
	// that (hadoop.proxyuser). It does not change whom a token is of.
	User string
	// Protection lists the acceptable qualities of protection, in order of preference. Empty: any, the cheapest
	// first; the server offers what its administrator accepts.
	Protection []sasl.QOP
	// Fallback accepts a NameNode without security although there are credentials
	// (ipc.client.fallback-to-simple-auth-allowed).
	Fallback bool
	// Lookup resolves the hosts of tokens and NameNodes. Default: net.DefaultResolver.
	Lookup func(ctx context.Context, host string) ([]string, error)
}

// NewAuth returns the Authenticator that o describes.
func NewAuth(o AuthOptions) Authenticator {
	if len(o.Protection) == 0 {
		o.Protection = []sasl.QOP{sasl.Auth, sasl.Integrity, sasl.Privacy}
	}
	if o.Lookup == nil {
		o.Lookup = net.DefaultResolver.LookupHost
	}
	return &auth{o}
}

type auth struct{ AuthOptions }

// ContextUser is the user acted as; the credentials say who acts.
func (a *auth) ContextUser() (effective, real string) { return a.User, "" }

// As returns who acts as user, with the same Kerberos credentials.
func (a *auth) As(user string) (Authenticator, error) {
	if a.Kerberos == nil {
		return nil, fmt.Errorf("%w: acting as %.128q takes a keytab or a ticket cache: a token is of its owner alone", sasl.ErrAuth, user)
	}
	other := a.AuthOptions
	other.User, other.Tokens = user, nil
	return &auth{other}, nil
}

// Choose takes the first way of the offer for which there are credentials.
func (a *auth) Choose(offer []*hproto.SaslAuth, nn conf.NameNode) (sasl.Mechanism, *hproto.SaslAuth, error) {
	var why []string
	for _, way := range offer {
		mech, err := a.serve(way, nn)
		if err == nil {
			return mech, way, nil
		}
		why = append(why, fmt.Sprintf("%.32s: %v", way.GetMethod(), err))
	}
	if len(offer) == 0 {
		why = []string{"it offers none"}
	}
	return nil, nil, fmt.Errorf("%s offers no way to authenticate that can be gone: %w: %s", nn.Addr, sasl.ErrAuth, strings.Join(why, "; "))
}

func (a *auth) serve(way *hproto.SaslAuth, nn conf.NameNode) (sasl.Mechanism, error) {
	switch way.GetMethod() {
	case "TOKEN":
		return a.byToken(way, nn)
	case "KERBEROS":
		return a.byTicket(way, nn)
	case "SIMPLE":
		if a.Kerberos == nil && a.Tokens == nil || a.Fallback {
			return nil, nil
		}
		return nil, fmt.Errorf("there are credentials, and the NameNode wants none: is it the right one? (ipc.client.fallback-to-simple-auth-allowed=true accepts it)")
	}
	return nil, fmt.Errorf("not known")
}

func wantMechanism(way *hproto.SaslAuth, want string) error {
	if got := way.GetMechanism(); got != want {
		return fmt.Errorf("its mechanism is %.32q, and only %s is known here (see hadoop.security.sasl.mechanism)", got, want)
	}
	return nil
}

func (a *auth) byToken(way *hproto.SaslAuth, nn conf.NameNode) (sasl.Mechanism, error) {
	if a.Tokens == nil || a.User != "" {
		return nil, fmt.Errorf("no token is given (HADOOP_TOKEN_FILE_LOCATION)")
	}
	if err := wantMechanism(way, "DIGEST-MD5"); err != nil {
		return nil, err
	}
	tokens, err := a.Tokens()
	if err != nil {
		return nil, err
	}
	t, err := a.find(tokens, nn)
	if err != nil {
		return nil, err
	}
	return sasl.DigestMD5(sasl.NameNodeToken(t.Identifier, t.Password.Bytes(), a.Protection)), nil
}

// find returns the token for a NameNode: by the names that its service can have, then by its address.
func (a *auth) find(tokens map[string]token.Token, nn conf.NameNode) (token.Token, error) {
	names := []string{"ha-hdfs:" + a.Cluster.Name, nn.Addr}
	var others []string
	for _, alias := range slices.Sorted(maps.Keys(tokens)) {
		t := tokens[alias]
		if t.Kind != token.KindHDFS {
			continue
		}
		if slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, t.Service) }) || a.sameAddr(t.Service, nn.Addr) {
			return t, nil
		}
		others = append(others, fmt.Sprintf("%.128q", t.Service))
	}
	if len(others) == 0 {
		return token.Token{}, fmt.Errorf("the token file holds no token of kind %s", token.KindHDFS)
	}
	return token.Token{}, fmt.Errorf("the token file holds tokens for %s only", strings.Join(others, ", "))
}

// sameAddr reports whether two host:port are the same place.
func (a *auth) sameAddr(x, y string) bool {
	hostX, portX, errX := net.SplitHostPort(x)
	hostY, portY, errY := net.SplitHostPort(y)
	if errX != nil || errY != nil || portX != portY {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	ips, _ := a.Lookup(ctx, hostY)
	if slices.Contains(ips, hostX) {
		return true
	}
	if net.ParseIP(hostX) != nil {
		return false
	}
	more, _ := a.Lookup(ctx, hostX)
	return slices.ContainsFunc(more, func(ip string) bool { return ip == hostY || slices.Contains(ips, ip) })
}

func (a *auth) byTicket(way *hproto.SaslAuth, nn conf.NameNode) (sasl.Mechanism, error) {
	if a.Kerberos == nil {
		return nil, fmt.Errorf("no keytab or ticket cache is given")
	}
	if err := wantMechanism(way, "GSSAPI"); err != nil {
		return nil, err
	}
	service, host := way.GetProtocol(), way.GetServerId()
	_, realm, _ := strings.Cut(nn.Principal, "@")
	if realm == "" {
		realm = a.Kerberos.Realm(host)
	}
	if err := expected(service+"/"+host+"@"+realm, nn); err != nil {
		return nil, err
	}
	return sasl.GSSAPI(a.Kerberos, service, host, realm, a.Protection), nil
}
