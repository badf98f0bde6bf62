package agent

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/stepahead-io/stepahead/hints"
)

// silentLoop is how long the loop may take for a turn before the agent is called unhealthy.
const silentLoop = 5 * time.Second

// jobStatus describes a job to people.
type jobStatus struct {
	Job        string   `json:"job"`
	Run        string   `json:"run"`
	Generation uint64   `json:"generation"`
	Dataset    string   `json:"dataset"`
	Progress   int64    `json:"progress"`
	Window     [2]int64 `json:"window"` // first step and the step after the last
	StepTime   float64  `json:"step_time_s"`
	// Saving is the checkpoint whose save stops the job's clock.
	Saving     string               `json:"saving,omitempty"`
	Readers    int                  `json:"readers"`
	ShelfBytes int64                `json:"shelf_bytes"`
	Ledger     hints.LedgerSnapshot `json:"ledger"`
}

func (l *loop) status() []jobStatus {
	list := []jobStatus{}
	for _, j := range l.planner.sortedJobs() {
		gap, _ := j.clock.step()
		s := jobStatus{
			Job: j.id, Run: j.run, Generation: j.generation, Progress: j.ahead,
			Window: [2]int64{j.progress, j.horizon()}, StepTime: gap.Seconds(), Readers: len(j.readers), ShelfBytes: j.held,
			Saving: j.saving.path,
		}
		if k := l.lookups[j.id]; k != nil {
			s.Dataset, s.Ledger = k.task.data.String(), k.task.ledger.Snapshot()
		}
		list = append(list, s)
	}
	return list
}

// Handler serves the agent's state to people and probes: GET /healthz (200 while the agent works),
// /jobs (the jobs, their windows and accounts) and /entries (how the latest preparations came about),
// the last two as JSON.
func (a *Agent) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if late := a.now() - time.Duration(a.beat.Load()); !a.ran.Load() || late > silentLoop {
			http.Error(w, "not running", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.HandleFunc("GET /jobs", func(w http.ResponseWriter, r *http.Request) {
		found := make(chan []jobStatus, 1)
		a.mail.put(envelope{inspect: found})
		select {
		case list := <-found:
			writeJSON(w, list)
		case <-a.ended:
			http.Error(w, "stopped", http.StatusServiceUnavailable)
		case <-r.Context().Done():
		}
	})
	mux.HandleFunc("GET /entries", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, a.records.list()) })
	return mux
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(v) // the peer is gone: nothing to be done
}
