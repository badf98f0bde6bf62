package protocol

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stepahead-io/stepahead/transform"
)

func drawOutcome(t *rapid.T) Outcome {
	side := rapid.Int64Range(1, 1<<13)
	o := Outcome{Status: Status(rapid.IntRange(0, 2).Draw(t, "status"))}
	if o.Status != Failed {
		o.Shape = [3]int64{side.Draw(t, "h"), side.Draw(t, "w"), side.Draw(t, "c")}
		return o
	}
	kinds := []transform.ErrorKind{transform.KindDecode, transform.KindTruncated, transform.KindUnsupported, transform.KindLimit, transform.KindPlan, transform.KindCrash}
	o.Error = &transform.Error{Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Op: rapid.String().Draw(t, "op"), Detail: rapid.String().Draw(t, "detail")}
	return o
}

func drawReply(t *rapid.T) Reply {
	return rapid.SliceOfN(rapid.Custom(drawOutcome), 1, MaxBatch).Draw(t, "outcomes")
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

func drawJob(t *rapid.T) Job {
	return Job{
		Slot: rapid.Uint8Range(0, PlanSlots-1).Draw(t, "slot"),
		Plan: []byte(rapid.String().Draw(t, "plan")),
		Key: transform.Key{Seed: rapid.Uint64().Draw(t, "seed"), Source: rapid.String().Draw(t, "source"),
			Epoch: rapid.Uint64().Draw(t, "epoch"), Sample: rapid.Uint64().Draw(t, "sample")},
		Input: rapid.Int64Range(0, 1<<40).Draw(t, "input"), Output: rapid.Int64Range(0, 1<<40).Draw(t, "output"),
	}
}

func TestRequestsSurviveTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Request(rapid.SliceOfN(rapid.Custom(drawJob), 1, MaxBatch).Draw(t, "jobs"))
		packet, size := want.Append(nil), RequestBytes
		for _, j := range want {
			size += JobBytes(len(j.Key.Source), len(j.Plan))
		}
		if len(packet) != size {
			t.Fatalf("the packet has %d bytes, announced were %d", len(packet), size)
		}
		got, err := ParseRequest(packet)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, %v, want %+v", got, err, want)
		}
		if _, err := ParseRequest(packet[:rapid.IntRange(0, len(packet)-1).Draw(t, "cut")]); err == nil {
			t.Fatal("a cut request passes")
		}
	})
}

func TestMessagesAreAboutOneToMaxBatchJobs(t *testing.T) {
	for _, n := range []int{0, MaxBatch + 1} {
		if _, err := ParseRequest(make(Request, n).Append(nil)); err == nil {
			t.Errorf("a request of %d jobs passes", n)
		}
		if _, err := ParseReply(make(Reply, n).Append(nil)); err == nil {
			t.Errorf("a reply of %d outcomes passes", n)
		}
	}
}

func TestPlacesFollowEachOtherAtCacheLines(t *testing.T) {
	for _, c := range [][4]int64{{0, 5, 0, 5}, {5, 0, 64, 64}, {64, 1, 64, 65}, {65, 64, 128, 192}} {
		if at, then := Place(c[0], c[1]); at != c[2] || then != c[3] {
			t.Errorf("%d bytes after %d lie at %d to %d, want %d to %d", c[1], c[0], at, then, c[2], c[3])
		}
	}
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

func failure(kind transform.ErrorKind, op, detail string) Outcome {
	return Outcome{Status: Failed, Error: &transform.Error{Kind: kind, Op: op, Detail: detail}}
}

func TestABatchOfLongErrorsFitsAPacket(t *testing.T) {
	long := strings.Repeat("x", MaxPacket)
	r := slices.Repeat(Reply{failure(transform.KindDecode, long, long)}, MaxBatch)
	packet := r.Append(nil)
	if got, err := ParseReply(packet); err != nil || len(packet) > MaxPacket || len(got[MaxBatch-1].Error.Detail) != maxDetail {
		t.Errorf("%d bytes, %v", len(packet), err)
	}
}

func TestAWorkerCannotClaimWhatOnlyThePoolKnows(t *testing.T) {
	for _, kind := range []transform.ErrorKind{transform.KindDeadline, transform.KindIO, "", "content"} {
		r := Reply{failure(kind, "", "")}
		if _, err := ParseReply(r.Append(nil)); err == nil {
			t.Errorf("kind %q passes", kind)
		}
	}
}

func FuzzParseReply(f *testing.F) {
	done := Outcome{Shape: [3]int64{224, 224, 3}}
	f.Add(Reply{done}.Append(nil))
	f.Add(Reply{done, {Status: Short, Shape: [3]int64{1 << 20, 1 << 19, 1}}, failure(transform.KindLimit, "o", "d")}.Append(nil))
	f.Add([]byte("R"))
	f.Fuzz(func(t *testing.T, packet []byte) {
		r, err := ParseReply(packet)
		if err != nil {
			return
		}
		for _, o := range r {
			if o.Status != Failed && (o.Bytes() < 1 || o.Bytes() > 1<<40) {
				t.Errorf("shape %v passes", o.Shape)
			}
			if (o.Status == Failed) != (o.Error != nil) {
				t.Errorf("status %d with error %v", o.Status, o.Error)
			}
		}
		if !bytes.Equal(r.Append(nil), packet) {
			t.Errorf("%x reads as %+v, which is written %x", packet, r, r.Append(nil))
		}
	})
}

func FuzzParseRequest(f *testing.F) {
	job := Job{Slot: 3, Plan: []byte(`{"plan":1}`), Key: transform.Key{Source: "photos"}, Input: 5, Output: 9}
	f.Add(Request{job}.Append(nil))
	f.Add(Request{job, job}.Append(nil))
	f.Add([]byte("Q"))
	f.Fuzz(func(t *testing.T, packet []byte) {
		r, err := ParseRequest(packet)
		if err == nil && !bytes.Equal(r.Append(nil), packet) {
			t.Errorf("%x reads as %+v", packet, r)
		}
		for _, j := range r {
			if err == nil && (j.Input < 0 || j.Output < 0 || j.Slot >= PlanSlots) {
				t.Errorf("%x reads as %+v", packet, r)
			}
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
