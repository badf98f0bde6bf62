package token

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/stepahead-io/stepahead/internal/localfile"
	"github.com/stepahead-io/stepahead/store/hdfs/hproto"
)

const (
	magic   = "HDTS"
	maxFile = 16 << 20 // bytes; a token has some hundred
	maxKept = 10_000   // tokens in one file
)

// Load reads a credential file, such as the one that HADOOP_TOKEN_FILE_LOCATION names: tokens by alias.
func Load(path string) (map[string]Token, error) {
	data, err := localfile.Read(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("token.Load: %w", err)
	}
	tokens, err := Read(data)
	if err != nil {
		return nil, fmt.Errorf("token.Load %s: %w", path, err)
	}
	return tokens, nil
}

// Read reads the content of a credential file, of at most 16 MiB and 10,000 tokens, in Hadoop's older (Writable)
// or newer (protobuf) form. Secrets that are no tokens are passed over. Errors quote nothing of the file.
func Read(data []byte) (map[string]Token, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("token.Read: more than %d bytes", maxFile)
	}
	if len(data) < len(magic)+1 || string(data[:len(magic)]) != magic {
		return nil, errors.New("token.Read: not a credential file: it does not begin with HDTS")
	}
	var tokens map[string]Token
	var err error
	switch version, body := data[len(magic)], data[len(magic)+1:]; version {
	case 0:
		tokens, err = readWritable(body)
	case 1:
		tokens, err = readProtobuf(body)
	default:
		err = fmt.Errorf("version %d: 0 and 1 are known", version)
	}
	if err != nil {
		return nil, fmt.Errorf("token.Read: %w", err)
	}
	return tokens, nil
}

func readWritable(body []byte) (map[string]Token, error) {
	r := reader{data: body}
	tokens := map[string]Token{}
	for n := count(&r); n > 0 && r.err == nil; n-- {
		alias := r.text()
		t := Token{Identifier: slices.Clone(r.vbytes()), Password: NewSecret(r.vbytes()), Kind: r.text(), Service: r.text()}
		add(&r, tokens, alias, t)
	}
	for n := count(&r); n > 0 && r.err == nil; n-- {
		r.text()
		r.vbytes()
	}
	if r.err == nil && r.at != len(r.data) {
		r.failf("%d bytes are left over", len(r.data)-r.at)
	}
	if r.err != nil {
		return nil, r.err
	}
	return tokens, nil
}

func count(r *reader) int64 {
	n := r.vlong()
	if n < 0 || n > maxKept {
		r.failf("%d entries: 0 to %d may be there", n, maxKept)
	}
	return n
}

func add(r *reader, tokens map[string]Token, alias string, t Token) {
	if _, again := tokens[alias]; again {
		r.failf("an alias occurs twice")
	}
	tokens[alias] = t
}

func readProtobuf(body []byte) (map[string]Token, error) {
	size, n := binary.Uvarint(body)
	if n <= 0 || size != uint64(len(body)-n) {
		return nil, fmt.Errorf("%d bytes are announced, %d are there", size, len(body)-max(n, 0))
	}
	var m hproto.Credentials
	if err := proto.Unmarshal(body[n:], &m); err != nil {
		return nil, errors.New("not Hadoop's credentials: the protobuf message cannot be read")
	}
	if len(m.Tokens) > maxKept {
		return nil, fmt.Errorf("%d tokens: 0 to %d may be there", len(m.Tokens), maxKept)
	}
	var r reader
	tokens := map[string]Token{}
	for _, e := range m.Tokens {
		if e.Token == nil {
			return nil, errors.New("an entry holds no token")
		}
		add(&r, tokens, e.GetAlias(), Token{Kind: e.Token.GetKind(), Service: e.Token.GetService(),
			Identifier: slices.Clone(e.Token.GetIdentifier()), Password: NewSecret(e.Token.GetPassword())})
	}
	if r.err != nil {
		return nil, r.err
	}
	return tokens, nil
}
