package control

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/stepahead-io/stepahead/controller/controllerpb"
	"github.com/stepahead-io/stepahead/controller/timeline"
)

// Timelines are what became of the evaluations of checkpoints.
type Timelines struct {
	Timelines []timeline.Timeline `json:"timelines"`
	// Now is the controller's monotonic clock, by which checkpoints are committed, and Wall its wall clock, both when it answered.
	Now  time.Duration `json:"now_ns"`
	Wall time.Time     `json:"wall"`
}

// Write writes them for people, with bars of a width.
func (t Timelines) Write(w io.Writer, width int) error {
	return timeline.Write(w, t.Timelines, width, func(at time.Duration) time.Time { return t.Wall.Add(at - t.Now).Truncate(time.Second) })
}

// Encode returns the message.
func (t Timelines) Encode() (*controllerpb.TimelineReply, error) {
	m := &controllerpb.TimelineReply{NowNs: int64(t.Now), WallNs: t.Wall.UnixNano()}
	for _, one := range t.Timelines {
		text, err := json.Marshal(one)
		if err != nil {
			return nil, err
		}
		m.Timelines = append(m.Timelines, text)
	}
	return m, nil
}

// Timeline returns the timelines of a checkpoint, or, where path is "", those of a job's checkpoints and evaluations.
func (c *Client) Timeline(ctx context.Context, path, job string) (Timelines, error) {
	m, err := call(c, func(p controllerpb.ControlClient) (*controllerpb.TimelineReply, error) {
		return p.Timeline(ctx, &controllerpb.TimelineRequest{Path: path, Job: job})
	})
	if err != nil {
		return Timelines{}, err
	}
	t := Timelines{Now: time.Duration(m.NowNs), Wall: time.Unix(0, m.WallNs).UTC(), Timelines: []timeline.Timeline{}}
	for _, text := range m.Timelines {
		var one timeline.Timeline
		if err := json.Unmarshal(text, &one); err != nil {
			return Timelines{}, fmt.Errorf("controller %s: a timeline: %w", c.addr, err)
		}
		t.Timelines = append(t.Timelines, one)
	}
	return t, nil
}
