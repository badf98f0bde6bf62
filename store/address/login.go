package address

import (
	"context"
	"fmt"
	"strings"

	"github.com/stepahead-io/stepahead/store/hdfs/conf"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
	"github.com/stepahead-io/stepahead/store/hdfs/sasl"
	"github.com/stepahead-io/stepahead/store/hdfs/token"
)

// authenticator proves who calls: by delegation tokens where HADOOP_TOKEN_FILE_LOCATION names a file, by Kerberos where the
// configuration asks for it; nil on a cluster without security. A token goes before a ticket.
func authenticator(ctx context.Context, cluster conf.Cluster, cfg *conf.Config, o Options) (namenode.Authenticator, error) {
	file := o.getenv("HADOOP_TOKEN_FILE_LOCATION")
	secure := strings.EqualFold(cfg.String("hadoop.security.authentication", "simple"), "kerberos")
	if file == "" && !secure {
		return nil, nil
	}
	protection, err := sasl.ParseQOPs(cfg.String("hadoop.rpc.protection", "authentication"))
	if err != nil {
		return nil, fmt.Errorf("hadoop.rpc.protection (%s): %w", cfg.Source("hadoop.rpc.protection"), err)
	}
	a := namenode.AuthOptions{
		Cluster: cluster, Protection: protection,
		// Launchers name a file of tokens on clusters without security too, and then nothing is proven to anybody.
		Fallback: !secure || cfg.Bool("ipc.client.fallback-to-simple-auth-allowed", false),
	}
	if file != "" {
		if _, err := token.Load(file); err != nil {
			return nil, fmt.Errorf("HADOOP_TOKEN_FILE_LOCATION: %w", err)
		}
		a.Tokens = func() (map[string]token.Token, error) { return token.Load(file) } // a job's launcher replaces it
	}
	if secure {
		a.Kerberos, err = sasl.Login(ctx, sasl.LoginFromEnv(o.getenv))
		if err != nil && file == "" {
			return nil, fmt.Errorf("the configuration asks for Kerberos (%s): %w: run kinit, or set KRB5_CLIENT_KTNAME to a keytab, or HADOOP_TOKEN_FILE_LOCATION to a file of delegation tokens",
				cfg.Source("hadoop.security.authentication"), err)
		}
	}
	return namenode.NewAuth(a), nil
}
