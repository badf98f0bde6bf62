package hdfs

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stepahead-io/stepahead/store/hdfs/conf"
	"github.com/stepahead-io/stepahead/store/hdfs/datanode"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/sasl"
)

// protection says how connections to DataNodes are protected: encrypted where the NameNode says so, else with a handshake on
// a secure cluster, else not. Whether DataNodes of a secure cluster want the handshake cannot be asked: without
// dfs.data.transfer.protection it is assumed, with whatever protection they want.
type protection struct {
	names  keyKeeper
	secure bool
	qops   []sasl.QOP
	aes    bool

	turn    chan struct{} // holds a token; who has it may use what follows
	asked   time.Time     // when the NameNode was asked last
	encrypt bool
	key     *hproto.DataEncryptionKey // nil: to be fetched
}

// keyKeeper is what the NameNode knows of protection.
type keyKeeper interface {
	GetServerDefaults(ctx context.Context) (*hproto.FsServerDefaults, error)
	GetDataEncryptionKey(ctx context.Context) (*hproto.DataEncryptionKey, error)
}

// defaultsLife is how long an answer about encryption is believed, as by Hadoop's client.
const defaultsLife = time.Hour

func newProtection(c *conf.Config, names keyKeeper, secure bool) (*protection, error) {
	const key = "dfs.data.transfer.protection"
	qops, err := sasl.ParseQOPs(c.String(key, ""))
	if err != nil {
		return nil, fmt.Errorf("%s: property %s: %w", c.Source(key), key, err)
	}
	p := &protection{names: names, secure: secure, qops: qops, turn: make(chan struct{}, 1)}
	for _, suite := range c.Strings("dfs.encrypt.data.transfer.cipher.suites") {
		p.aes = p.aes || strings.EqualFold(suite, "AES/CTR/NoPadding")
	}
	p.turn <- struct{}{}
	return p, nil
}

// Protection implements datanode.Security.
func (p *protection) Protection(ctx context.Context) (datanode.Protection, error) {
	select {
	case <-p.turn:
		defer func() { p.turn <- struct{}{} }()
	case <-ctx.Done():
		return datanode.Protection{}, ctx.Err()
	}
	if err := p.ask(ctx); err != nil {
		return datanode.Protection{}, err
	}
	switch {
	case p.encrypt:
		return datanode.Protection{Mode: datanode.Encrypted, Key: p.key, AES: p.aes}, nil
	case p.secure:
		return datanode.Protection{Mode: datanode.General, QOPs: p.qops, AES: p.aes}, nil
	default:
		return datanode.Protection{}, nil
	}
}

// ask brings what is known up to date. What was known before outlives a NameNode that does not answer.
func (p *protection) ask(ctx context.Context) error {
	if p.asked.IsZero() || time.Since(p.asked) >= defaultsLife {
		d, err := p.names.GetServerDefaults(ctx)
		switch {
		case err == nil:
			p.encrypt = d.GetEncryptDataTransfer()
		case p.asked.IsZero():
			return err
		}
		p.asked = time.Now()
	}
	if !p.encrypt || p.key != nil {
		return nil
	}
	key, err := p.names.GetDataEncryptionKey(ctx)
	if err == nil && key == nil {
		err = fmt.Errorf("the NameNode says that data transfer is encrypted, and gave no key")
	}
	p.key = key
	return err
}

// KeyRefused implements datanode.Security. Keys are kept until then: their end is a time of another host's clock.
func (p *protection) KeyRefused(key *hproto.DataEncryptionKey) {
	<-p.turn
	defer func() { p.turn <- struct{}{} }()
	if p.key == key {
		p.key = nil
	}
}
