package datanode

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/internal/hdfstest"
	"github.com/stepahead-io/stepahead/internal/testdata"
	"github.com/stepahead-io/stepahead/store/hdfs/conf"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
	"github.com/stepahead-io/stepahead/store/hdfs/namenode"
	"github.com/stepahead-io/stepahead/store/hdfs/sasl"
)

// realm is a real cluster as this package needs it.
type realm struct {
	*hdfstest.Cluster
	names *namenode.Client
}

func enter(t *testing.T, c *hdfstest.Cluster) realm {
	t.Helper()
	settings, err := conf.Load(c.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := settings.Cluster("")
	if err != nil {
		t.Fatal(err)
	}
	o := namenode.Options{Cluster: cluster, User: hdfstest.User}
	if c.Realm() != nil {
		login := sasl.LoginFromEnv(c.Getenv)
		login.Keytab = c.Keytab(hdfstest.User)
		who, err := sasl.Login(within(t), login)
		if err != nil {
			t.Fatal(err)
		}
		o.Auth = namenode.NewAuth(namenode.AuthOptions{Cluster: cluster, Kerberos: who})
	}
	if o, err = o.WithConfig(settings); err != nil {
		t.Fatal(err)
	}
	names := namenode.New(o)
	t.Cleanup(func() { names.Close() })
	return realm{c, names}
}

// replica is a block and a node that has it.
type replica struct {
	node  Node
	block Block
	off   int64 // of the block in the file
	index int   // of the node in the cluster
}

func (r realm) replicas(t *testing.T, path string) (all []replica) {
	t.Helper()
	blocks, err := r.names.GetBlockLocations(within(t), path, 0, 1<<60)
	if err != nil {
		t.Fatal(err)
	}
	nodes := r.DataNodes()
	for _, b := range blocks.GetBlocks() {
		for _, l := range b.GetLocs() {
			id := l.GetId()
			addr := net.JoinHostPort(id.GetIpAddr(), strconv.Itoa(int(id.GetXferPort())))
			all = append(all, replica{
				node:  Node{UUID: id.GetDatanodeUuid(), Addr: addr, Host: id.GetHostName()},
				block: Block{ExtendedBlock: b.GetB(), Token: b.GetBlockToken()},
				off:   int64(b.GetOffset()),
				index: slices.IndexFunc(nodes, func(n hdfstest.DataNode) bool { return n.UUID == id.GetDatanodeUuid() }),
			})
		}
	}
	return all
}

// readRandomly reads random parts of every replica and compares them with the file.
func readRandomly(t *testing.T, p *Pool, all []replica, data []byte, rounds int) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	for range rounds {
		for _, r := range all {
			size := int64(r.block.GetNumBytes())
			at := random.Int64N(size)
			var parts []Part
			for at < size && len(parts) < 4 {
				n := min(size-at, 1+random.Int64N(size/2))
				parts = append(parts, Part{at, make([]byte, n)})
				at += n + random.Int64N(3)*random.Int64N(2000)
			}
			if _, err := p.Read(within(t), r.node, r.block, parts); err != nil {
				t.Fatal(err)
			}
			for _, x := range parts {
				if !bytes.Equal(x.Buf, data[r.off+x.Off:r.off+x.Off+int64(len(x.Buf))]) {
					t.Fatalf("%s: %d bytes at %d are not the file's", r.block.Name(), len(x.Buf), x.Off)
				}
			}
		}
	}
}

// TestRealReads: a real DataNode's bytes, on few connections.
func TestRealReads(t *testing.T) {
	c := enter(t, hdfstest.Shared(t))
	path := c.Dir(t) + "/file"
	data := hdfstest.Bytes(1, 5_000_001)
	c.Put(path, data, 3, 2<<20)
	all := c.replicas(t, path)
	for name, o := range ways {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, o)
			readRandomly(t, p, all, data, 8)
			if s := p.Stats(); s.Opened > 3+s.Stale {
				t.Errorf("one read at a time from 3 nodes: %+v", s)
			}
		})
	}
}

// TestRealRefusals: how a real DataNode words them is how we understand them.
func TestRealRefusals(t *testing.T) {
	c := enter(t, hdfstest.Shared(t))
	path := c.Dir(t) + "/file"
	c.Put(path, hdfstest.Bytes(2, 1_000_000), 3, 1<<20)
	r := c.replicas(t, path)[0]
	p := newPool(t, Options{})
	for name, x := range map[string]struct {
		change func(b *hproto.ExtendedBlock)
		off    int64
		want   error
	}{
		"outside":    {func(*hproto.ExtendedBlock) {}, 999_950, ErrLength},
		"no such":    {func(b *hproto.ExtendedBlock) { *b.BlockId += 12345 }, 0, ErrMissing},
		"newer":      {func(b *hproto.ExtendedBlock) { *b.GenerationStamp += 7 }, 0, ErrMissing},
		"other pool": {func(b *hproto.ExtendedBlock) { *b.PoolId = "BP-1-127.0.0.1-1" }, 0, nil},
	} {
		b := Block{ExtendedBlock: proto.CloneOf(r.block.ExtendedBlock), Token: r.block.Token}
		x.change(b.ExtendedBlock)
		n, err := p.Read(within(t), r.node, b, []Part{{x.off, make([]byte, 100)}})
		if n != 0 || err == nil || x.want != nil && !errors.Is(err, x.want) {
			t.Errorf("%s: %d bytes, %v; want %v", name, n, err, x.want)
		}
	}
}

// TestRealDamage: a damaged replica gives no wrong byte.
func TestRealDamage(t *testing.T) {
	c := enter(t, hdfstest.Shared(t))
	data := hdfstest.Bytes(3, 1_000_000)
	for name, x := range map[string]struct {
		what hdfstest.Damage
		want error
	}{
		"data": {hdfstest.FlipData, ErrChecksum}, "checksum": {hdfstest.FlipChecksum, ErrChecksum},
		"truncated": {hdfstest.Truncate, nil}, "deleted": {hdfstest.Delete, ErrMissing},
	} {
		t.Run(name, func(t *testing.T) {
			path := c.Dir(t) + "/file"
			c.Put(path, data, 2, 1<<20)
			r := c.replicas(t, path)[0]
			c.Corrupt(path, 0, r.index, x.what)
			p := newPool(t, Options{})
			buf := make([]byte, len(data))
			n, err := p.Read(within(t), r.node, r.block, []Part{{0, buf}})
			t.Logf("%d bytes, %v", n, err)
			if err == nil || x.want != nil && !errors.Is(err, x.want) || !bytes.Equal(buf[:n], data[:n]) {
				t.Errorf("%d bytes, %v; want %v", n, err, x.want)
			}
		})
	}
}

// TestRealProtection: every way in which a cluster can protect data transfer.
func TestRealProtection(t *testing.T) {
	const suites = "dfs.encrypt.data.transfer.cipher.suites"
	for name, x := range map[string]struct {
		o    hdfstest.Options
		soak bool
	}{
		"authentication": {hdfstest.Options{Kerberos: "authentication"}, true},
		"integrity":      {hdfstest.Options{Kerberos: "integrity"}, true},
		"privacy":        {hdfstest.Options{Kerberos: "privacy"}, false},
		"privacy, AES":   {hdfstest.Options{Kerberos: "privacy", Site: map[string]string{suites: "AES/CTR/NoPadding"}}, true},
		"encrypted":      {hdfstest.Options{Encrypt: true}, true},
		"encrypted, AES": {hdfstest.Options{Encrypt: true, Site: map[string]string{suites: "AES/CTR/NoPadding"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if x.soak {
				testdata.Soak(t)
			}
			x.o.DataNodes = 1
			c := enter(t, hdfstest.Start(t, x.o))
			path := c.Dir(t) + "/file"
			data := hdfstest.Bytes(1, 1_000_001)
			c.Put(path, data, 1, 1<<20)
			all := c.replicas(t, path)
			want := Protection{Mode: General, AES: x.o.Site[suites] != ""}
			if x.o.Encrypt {
				key, err := c.names.GetDataEncryptionKey(within(t))
				if err != nil {
					t.Fatal(err)
				}
				want.Mode, want.Key = Encrypted, key
			}
			p := newPool(t, Options{Security: fixed(want)})
			readRandomly(t, p, all, data, 12)
			if s := p.Stats(); s.Opened > 1+s.Stale {
				t.Errorf("%+v", s)
			}
			c.sums(t, p, path, data)
			if x.o.Encrypt {
				refuseKey(t, want, all[0])
			} else {
				refuseToken(t, want, all[0])
			}
		})
	}
}

// fixed is a Security that knows one answer.
type fixed Protection

func (f fixed) Protection(context.Context) (Protection, error) { return Protection(f), nil }
func (fixed) KeyRefused(*hproto.DataEncryptionKey)             {}

// refuseToken: a token that nobody gave us opens nothing.
func refuseToken(t *testing.T, want Protection, r replica) {
	p := newPool(t, Options{Security: fixed(want)})
	r.block.Token = proto.CloneOf(r.block.Token)
	r.block.Token.Password[3] ^= 1
	_, err := p.Read(within(t), r.node, r.block, []Part{{0, make([]byte, 1)}})
	t.Logf("forged token: %v", err)
	if !errors.Is(err, ErrConnect) && !errors.Is(err, ErrToken) {
		t.Errorf("forged token: %v", err)
	}
}

// refuseKey: the node does not know a key that its NameNode never made.
func refuseKey(t *testing.T, want Protection, r replica) {
	want.Key = proto.CloneOf(want.Key)
	*want.Key.KeyId += 1000
	p := newPool(t, Options{Security: fixed(want)})
	if _, err := p.Read(within(t), r.node, r.block, []Part{{0, make([]byte, 1)}}); !errors.Is(err, ErrKey) {
		t.Errorf("unknown key: %v", err)
	}
}
