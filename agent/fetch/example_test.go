package fetch_test

import (
	"context"
	"fmt"
	"hash/crc32"
	"net"

	"google.golang.org/grpc"

	"github.com/stepahead-io/stepahead/agent/fetch"
	"github.com/stepahead-io/stepahead/internal/auth"
	"github.com/stepahead-io/stepahead/transform"
)

// Both sides come to the same owner, whatever the order of the list.
func ExampleOwner() {
	holders := []fetch.Node{{Name: "dn1"}, {Name: "dn2"}, {Name: "dn3"}}
	for sample := range uint64(3) {
		owner, _ := fetch.Owner([32]byte{}, sample, holders)
		fmt.Println(sample, owner.Name)
	}
	// Output:
	// 0 dn2
	// 1 dn3
	// 2 dn3
}

// shelf is an agent that has one sample ready and the raw bytes of all others.
type shelf struct{ ready uint64 }

func (s shelf) Fetch(_ context.Context, _ auth.Claims, req *fetch.Request, send func(int, fetch.Payload) error) error {
	for i, want := range req.Wants {
		data := []byte("pixels")
		p := fetch.Payload{Data: data, CRC: crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))}
		if want.Sample == s.ready {
			p.Spec = transform.TensorSpec{Dtype: transform.Uint8, Shape: []int{1, 2, 3}}
			p.PlanDigest = req.PlanDigests[want.Field]
		} else {
			p.Raw, p.Reason = true, fetch.ReasonNotReady
		}
		if err := send(i, p); err != nil {
			return err
		}
	}
	return nil
}

// A fallback is a value with a reason, not an error.
func ExampleClient_Fetch() {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	srv := grpc.NewServer(fetch.ServerOptions()...)
	fetch.Register(srv, "dn1", shelf{ready: 7}, auth.Insecure())
	go srv.Serve(lis)
	defer srv.Stop()

	client := fetch.NewClient(fetch.ClientOptions{})
	defer client.Close()
	req := &fetch.Request{
		Job: "job", Run: "run", PlanDigests: map[string][32]byte{"image": {1}},
		Wants: []fetch.Want{{Sample: 7, Field: "image"}, {Sample: 8, Field: "image"}},
	}
	alloc := func(_ int, _ bool, size int64) ([]byte, error) { return make([]byte, size), nil }
	err = client.Fetch(context.Background(), lis.Addr().String(), req, alloc, func(want int, a fetch.Answer) {
		if a.Prepared != nil {
			fmt.Println(want, "prepared by", a.Node, a.Prepared.Spec.Shape)
		} else {
			fmt.Println(want, a.Reason, len(a.Raw), "raw bytes")
		}
	})
	fmt.Println(err)
	// Output:
	// 0 prepared by dn1 [1 2 3]
	// 1 not-ready 6 raw bytes
	// <nil>
}
