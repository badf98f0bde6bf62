package namenode

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store/hdfs/conf"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/sasl"
	"github.com/stepahead-io/stepahead/store/hdfs/token"
)

func way(method, mechanism string) *hproto.SaslAuth {
	return &hproto.SaslAuth{Method: proto.String(method), Mechanism: proto.String(mechanism), Protocol: proto.String(""), ServerId: proto.String("default")}
}

func tokensFor(services ...string) func() (map[string]token.Token, error) {
	return func() (map[string]token.Token, error) {
		tokens := map[string]token.Token{"yarn": {Kind: "YARN_AM_RM_TOKEN", Service: "ha-hdfs:lake"}}
		for _, s := range services {
			tokens[s] = token.Token{Kind: token.KindHDFS, Service: s, Identifier: []byte(s), Password: token.NewSecret([]byte("p"))}
		}
		return tokens, nil
	}
}

func TestAuthChoosesTheFirstWayItCanGo(t *testing.T) {
	lookup := func(_ context.Context, host string) ([]string, error) {
		if host == "nn1.example" || host == "alias.example" {
			return []string{"10.0.0.1", "fd00::1"}, nil
		}
		return nil, errors.New("no such host")
	}
	tokenWay, simple, kerberos := way("TOKEN", "DIGEST-MD5"), way("SIMPLE", ""), way("KERBEROS", "GSSAPI")
	fail := func() (map[string]token.Token, error) { return nil, errors.New("the file is gone") }
	for name, c := range map[string]struct {
		o     AuthOptions
		offer []*hproto.SaslAuth
		want  string // the method and user, or a part of the error
	}{
		"of the nameservice":       {AuthOptions{Tokens: tokensFor("10.9.9.9:8020", "ha-hdfs:lake")}, []*hproto.SaslAuth{kerberos, tokenWay, simple}, "TOKEN ha-hdfs:lake"},
		"of the address":           {AuthOptions{Tokens: tokensFor("NN1.example:8020")}, []*hproto.SaslAuth{tokenWay}, "TOKEN NN1.example:8020"},
		"of the IP":                {AuthOptions{Tokens: tokensFor("10.0.0.1:8020")}, []*hproto.SaslAuth{tokenWay}, "TOKEN 10.0.0.1:8020"},
		"of the IPv6":              {AuthOptions{Tokens: tokensFor("[fd00::1]:8020")}, []*hproto.SaslAuth{tokenWay}, "TOKEN [fd00::1]:8020"},
		"of another name":          {AuthOptions{Tokens: tokensFor("alias.example:8020")}, []*hproto.SaslAuth{tokenWay}, "TOKEN alias.example:8020"},
		"of another port":          {AuthOptions{Tokens: tokensFor("10.0.0.1:8021")}, []*hproto.SaslAuth{tokenWay}, `holds tokens for "10.0.0.1:8021" only`},
		"of another cluster":       {AuthOptions{Tokens: tokensFor("ha-hdfs:sea")}, []*hproto.SaslAuth{tokenWay}, `holds tokens for "ha-hdfs:sea" only`},
		"no token":                 {AuthOptions{Tokens: tokensFor()}, []*hproto.SaslAuth{tokenWay}, "no token of kind HDFS_DELEGATION_TOKEN"},
		"no file":                  {AuthOptions{Tokens: fail}, []*hproto.SaslAuth{tokenWay}, "the file is gone"},
		"nothing given":            {AuthOptions{}, []*hproto.SaslAuth{tokenWay, kerberos}, "no keytab or ticket cache is given"},
		"a new mechanism":          {AuthOptions{Tokens: tokensFor("ha-hdfs:lake")}, []*hproto.SaslAuth{way("TOKEN", "SCRAM-SHA-256")}, "hadoop.security.sasl.mechanism"},
		"an unknown method":        {AuthOptions{}, []*hproto.SaslAuth{way("PLAIN", "PLAIN"), simple}, "SIMPLE"},
		"no security on both ends": {AuthOptions{}, []*hproto.SaslAuth{simple}, "SIMPLE"},
		"no security there":        {AuthOptions{Tokens: tokensFor("ha-hdfs:lake")}, []*hproto.SaslAuth{simple}, "ipc.client.fallback-to-simple-auth-allowed"},
		"and that is accepted":     {AuthOptions{Tokens: tokensFor("ha-hdfs:lake"), Fallback: true}, []*hproto.SaslAuth{simple}, "SIMPLE"},
		"a proxy uses no token":    {AuthOptions{Tokens: tokensFor("ha-hdfs:lake"), User: "alice"}, []*hproto.SaslAuth{tokenWay}, "no token is given"},
		"an empty offer":           {AuthOptions{}, nil, "offers none"},
	} {
		c.o.Cluster, c.o.Lookup = conf.Cluster{Name: "lake", HA: true}, lookup
		mech, chosen, err := NewAuth(c.o).Choose(c.offer, conf.NameNode{Addr: "nn1.example:8020"})
		if err != nil {
			if !errors.Is(err, sasl.ErrAuth) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "nn1.example:8020") {
				t.Errorf("%s: %v; want %q in it", name, err, c.want)
			}
			continue
		}
		method, service, _ := strings.Cut(c.want, " ")
		if chosen.GetMethod() != method || (mech == nil) != (method == "SIMPLE") {
			t.Errorf("%s: %v, %v; want %s", name, chosen, mech, c.want)
		}
		if mech != nil {
			response, _, err := mech.Step([]byte(`realm="default",nonce="n",qop="auth",charset=utf-8,algorithm=md5-sess`))
			if want := sasl.NameNodeToken([]byte(service), nil, nil).User; err != nil || !strings.Contains(string(response), `username="`+want+`"`) || !strings.Contains(string(response), `digest-uri="/default"`) {
				t.Errorf("%s: %s, %v", name, response, err)
			}
		}
	}
}

func TestServerMustBeTheNameNode(t *testing.T) {
	for _, c := range []struct{ offered, principal, pattern, want string }{
		{"nn/nn1.example@LAKE", "nn/nn1.example@LAKE", "", ""},
		{"nn/nn1.example@LAKE", "nn/nn1.example", "", ""},
		{"nn/nn2.example@LAKE", "nn/nn1.example@LAKE", "", "full host name"},
		{"http/nn1.example@LAKE", "nn/nn1.example@LAKE", "", "the server says it is"},
		{"nn/nn1.example@EVIL", "nn/nn1.example@LAKE", "", "the server says it is"},
		{"nn/nn1.example@LAKE", "", "", "set dfs.namenode.kerberos.principal"},
		{"nn/nn1.example@LAKE", "nn@LAKE", "", "service/_HOST@REALM"},
		{"nn/nn1.example@LAKE", "other/x@LAKE", "nn/*@LAKE", ""},
		{"nn/nn1.example@LAKE", "", "*", ""},
		{"nn/nn1.example@LAKE", "", "nn/nn[1-3].{example,test}@LAK?", ""},
		{"nn/nn1.example@LAKE", "", "nn/nn[^1].example@LAKE", "pattern"},
		{"nn/nn1.example@LAKE", "", "nn/nn1.example", "pattern"},
		{"nn/nn1xexample@LAKE", "", "nn/nn1.example@LAKE", "pattern"},
		{"nn/nn1.example@LAKE", "", "nn/nn1.example@LAKE{", "pattern"},
		{"nn/*@LAKE", "", `nn/\*@LAKE`, ""},
		{"nn/x@LAKE", "", `nn/\*@LAKE`, "pattern"},
	} {
		err := expected(c.offered, conf.NameNode{Principal: c.principal, PrincipalPattern: c.pattern})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
