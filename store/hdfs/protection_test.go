package hdfs

import (
	"context"
	"errors"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/store/hdfs/conf"
	"github.com/stepahead-io/stepahead/store/hdfs/datanode"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/sasl"
)

// keyring is a NameNode that keeps keys.
type keyring struct {
	encrypt        bool
	asked, fetched int
	err            error
}

func (k *keyring) GetServerDefaults(context.Context) (*hproto.FsServerDefaults, error) {
	k.asked++
	return &hproto.FsServerDefaults{EncryptDataTransfer: &k.encrypt}, k.err
}

func (k *keyring) GetDataEncryptionKey(context.Context) (*hproto.DataEncryptionKey, error) {
	k.fetched++
	return &hproto.DataEncryptionKey{KeyId: proto.Uint32(uint32(k.fetched))}, nil
}

func TestProtection(t *testing.T) {
	for name, c := range map[string]struct {
		encrypt, secure bool
		set             string // dfs.data.transfer.protection
		want            datanode.Mode
		qops            []sasl.QOP
	}{
		"plain":               {false, false, "", datanode.None, nil},
		"plain, setting left": {false, false, "privacy", datanode.None, nil},
		"secure":              {false, true, "", datanode.General, nil},
		"secure and set":      {false, true, "privacy,authentication", datanode.General, []sasl.QOP{sasl.Privacy, sasl.Auth}},
		"encrypted":           {true, false, "", datanode.Encrypted, nil},
		"encrypted, secure":   {true, true, "integrity", datanode.Encrypted, nil},
	} {
		t.Run(name, func(t *testing.T) {
			k := &keyring{encrypt: c.encrypt}
			p, err := newProtection(new(conf.Config).With("dfs.data.transfer.protection", c.set), k, c.secure)
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				got, err := p.Protection(t.Context())
				if err != nil || got.Mode != c.want || !slices.Equal(got.QOPs, c.qops) || (got.Key != nil) != c.encrypt {
					t.Fatalf("%+v, %v", got, err)
				}
			}
			if k.asked != 1 || k.fetched > 1 {
				t.Errorf("asked %d times, fetched %d keys", k.asked, k.fetched)
			}
		})
	}
	if _, err := newProtection(new(conf.Config).With("dfs.data.transfer.protection", "none"), nil, true); err == nil {
		t.Error("an unknown protection is taken")
	}
}

// TestProtectionKeys: a key is kept until a node refuses it, and fetched once for all who were refused.
func TestProtectionKeys(t *testing.T) {
	k := &keyring{encrypt: true, err: errors.New("no NameNode")}
	p, err := newProtection(new(conf.Config).With("dfs.encrypt.data.transfer.cipher.suites", "AES/CTR/NoPadding"), k, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Protection(t.Context()); !errors.Is(err, k.err) {
		t.Fatalf("got %v", err)
	}
	k.err = nil
	first, err := p.Protection(t.Context())
	if err != nil || first.Key.GetKeyId() != 1 || !first.AES {
		t.Fatalf("%+v, %v", first, err)
	}
	p.KeyRefused(first.Key)
	second, err := p.Protection(t.Context())
	if err != nil || second.Key.GetKeyId() != 2 {
		t.Fatalf("%+v, %v", second, err)
	}
	p.KeyRefused(first.Key) // by another read, late
	if again, err := p.Protection(t.Context()); err != nil || again.Key.GetKeyId() != 2 {
		t.Fatalf("%+v, %v", again, err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	<-p.turn
	if _, err := p.Protection(canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	p.turn <- struct{}{}
}
