package protocol

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/transform"
)

func drawReply(t *rapid.T) Reply {
	side := rapid.Int64Range(1, 1<<13)
	r := Reply{Status: Status(rapid.IntRange(0, 2).Draw(t, "status")), PeakRSS: rapid.Int64Range(0, 1<<62).Draw(t, "rss")}
	if r.Status != Failed {
		r.Shape = [3]int64{side.Draw(t, "h"), side.Draw(t, "w"), side.Draw(t, "c")}
		return r
	}
	kinds := []transform.ErrorKind{transform.KindDecode, transform.KindTruncated, transform.KindUnsupported, transform.KindLimit, transform.KindPlan, transform.KindCrash}
	r.Error = &transform.Error{Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Op: rapid.String().Draw(t, "op"), Detail: rapid.String().Draw(t, "detail")}
	return r
}

func TestRepliesSurviveTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawReply(t)
		packet := want.Append(nil)
		got, err := ParseReply(packet)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, %v, want %+v", got, err, want)
		}
		if _, err := ParseReply(packet[:rapid.IntRange(0, len(packet)-1).Draw(t, "cut")]); err == nil {
			t.Fatal("a cut reply passes")
		}
		if _, err := ParseReply(append(packet, 0)); err == nil {
			t.Fatal("a reply with a byte too many passes")
		}
	})
}

func TestRequestsSurviveTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Request{
			Slot: rapid.Uint8Range(0, PlanSlots-1).Draw(t, "slot"),
			Plan: []byte(rapid.String().Draw(t, "plan")),
			Key: transform.Key{Seed: rapid.Uint64().Draw(t, "seed"), Source: rapid.String().Draw(t, "source"),
				Epoch: rapid.Uint64().Draw(t, "epoch"), Sample: rapid.Uint64().Draw(t, "sample")},
			Input: rapid.Int64Range(0, 1<<40).Draw(t, "input"), Output: rapid.Int64Range(0, 1<<40).Draw(t, "output"),
		}
		got, err := ParseRequest(want.Append(nil))
		if err != nil || !bytes.Equal(got.Plan, want.Plan) {
			t.Fatalf("got %+v, %v, want %+v", got, err, want)
		}
		got.Plan = want.Plan
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	})
}

func TestGreetingsSurviveTheWire(t *testing.T) {
	hello := Hello{Protocol: 3, Limits: Limits{MaxPixels: 1, MaxInput: 2, MaxOutput: 3, MaxMemory: 4}}
	if got, err := ParseHello(hello.Append(nil)); err != nil || got != hello {
		t.Errorf("got %+v, %v", got, err)
	}
	welcome := Welcome{Protocol: 3, Isolation: []string{"a"}, Golden: map[string]string{"x@1": "00"}}
	if got, err := ParseWelcome(welcome.Append(nil)); err != nil || !reflect.DeepEqual(got, welcome) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, bad := range []string{"", "H", "W{", "H{}x", string(hello.Append(nil))} {
		if _, err := ParseWelcome([]byte(bad)); err == nil {
			t.Errorf("%q passes as a welcome", bad)
		}
	}
}

func TestLongErrorsAreCut(t *testing.T) {
	long := strings.Repeat("x", MaxPacket)
	r := Reply{Status: Failed, Error: &transform.Error{Kind: transform.KindDecode, Op: long, Detail: long}}
	packet := r.Append(nil)
	if got, err := ParseReply(packet); err != nil || len(packet) > MaxPacket || len(got.Error.Detail) != maxDetail {
		t.Errorf("%d bytes, %v", len(packet), err)
	}
}

func TestAWorkerCannotClaimWhatOnlyThePoolKnows(t *testing.T) {
	for _, kind := range []transform.ErrorKind{transform.KindDeadline, transform.KindIO, "", "content"} {
		r := Reply{Status: Failed, Error: &transform.Error{Kind: kind}}
		if _, err := ParseReply(r.Append(nil)); err == nil {
			t.Errorf("kind %q passes", kind)
		}
	}
}

func FuzzParseReply(f *testing.F) {
	f.Add(Reply{Shape: [3]int64{224, 224, 3}}.Append(nil))
	f.Add(Reply{Status: Short, Shape: [3]int64{1 << 20, 1 << 19, 1}}.Append(nil))
	f.Add(Reply{Status: Failed, Error: &transform.Error{Kind: transform.KindLimit, Op: "o", Detail: "d"}}.Append(nil))
	f.Add([]byte("R"))
	f.Fuzz(func(t *testing.T, packet []byte) {
		r, err := ParseReply(packet)
		if err != nil {
			return
		}
		if r.Status != Failed && (r.Bytes() < 1 || r.Bytes() > 1<<40) {
			t.Errorf("shape %v passes", r.Shape)
		}
		if (r.Status == Failed) != (r.Error != nil) {
			t.Errorf("status %d with error %v", r.Status, r.Error)
		}
		if !bytes.Equal(r.Append(nil), packet) && r.Status != Failed {
			// Sides of a failed reply are carried without meaning; all else has one spelling.
			t.Errorf("%x reads as %+v, which is written %x", packet, r, r.Append(nil))
		}
	})
}

func FuzzParseRequest(f *testing.F) {
	f.Add(Request{Slot: 3, Plan: []byte(`{"plan":1}`), Key: transform.Key{Source: "photos"}, Input: 5, Output: 9}.Append(nil))
	f.Add([]byte("Q"))
	f.Fuzz(func(t *testing.T, packet []byte) {
		r, err := ParseRequest(packet)
		if err == nil && (r.Input < 0 || r.Output < 0 || r.Slot >= PlanSlots || !bytes.Equal(r.Append(nil), packet)) {
			t.Errorf("%x reads as %+v", packet, r)
		}
	})
}

func FuzzParseGreetings(f *testing.F) {
	f.Add(Hello{Protocol: 1}.Append(nil))
	f.Add(Welcome{Protocol: 1, Golden: map[string]string{"a": "b"}}.Append(nil))
	f.Fuzz(func(t *testing.T, packet []byte) {
		_, _ = ParseHello(packet)
		_, _ = ParseWelcome(packet)
	})
}
