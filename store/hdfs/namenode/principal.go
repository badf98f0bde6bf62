package namenode

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/stepahead-io/stepahead/store/hdfs/conf"
)

// expected checks the principal that a server says it has. Otherwise whoever answers at the NameNode's address
// could choose the service for which we fetch a ticket, and be that service.
func expected(offered string, nn conf.NameNode) error {
	if nn.PrincipalPattern != "" {
		re, err := globRegexp(nn.PrincipalPattern)
		if err != nil {
			return fmt.Errorf("dfs.namenode.kerberos.principal.pattern: %w", err)
		}
		if !re.MatchString(offered) {
			return fmt.Errorf("the server says it is %.200q, which does not match dfs.namenode.kerberos.principal.pattern, %q", offered, nn.PrincipalPattern)
		}
		return nil
	}
	want := nn.Principal
	if want == "" {
		return fmt.Errorf("set dfs.namenode.kerberos.principal: without it any server could pose as the NameNode")
	}
	service, host, ok := strings.Cut(strings.SplitN(want, "@", 2)[0], "/")
	if !ok || service == "" || host == "" {
		return fmt.Errorf("dfs.namenode.kerberos.principal is %q: want service/host@REALM or service/_HOST@REALM", want)
	}
	if !strings.Contains(want, "@") {
		offered, _, _ = strings.Cut(offered, "@")
	}
	if offered != want {
		return fmt.Errorf("the server says it is %.200q, and dfs.namenode.kerberos.principal says %q: name the NameNode by its full host name, or set the key right", offered, want)
	}
	return nil
}

// globRegexp reads Hadoop's globs: * ? [a-c] [^a] {x,y} and \ before a character that stands for itself.
func globRegexp(glob string) (*regexp.Regexp, error) {
	var b strings.Builder
	depth := 0
	for i := 0; i < len(glob); i++ {
		switch c := glob[i]; {
		case c == '*':
			b.WriteString(".*")
		case c == '?':
			b.WriteByte('.')
		case c == '{':
			depth++
			b.WriteString("(?:")
		case c == '}' && depth > 0:
			depth--
			b.WriteByte(')')
		case c == ',' && depth > 0:
			b.WriteByte('|')
		case c == '[' || c == ']' || c == '^' || c == '-':
			b.WriteByte(c)
		case c == '\\' && i+1 < len(glob):
			i++
			b.WriteString(regexp.QuoteMeta(glob[i : i+1]))
		default:
			b.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	return regexp.Compile("^(?s:" + b.String() + ")$")
}
