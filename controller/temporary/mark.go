// Package temporary knows everything the controller made that has to go again: each has a mark, a small file that is written before anything is made and removed
// when nothing is left of it, and that says all that is needed to undo it. So whoever can write in a store can clean it, without a journal and without
// the controller: the sweeper that agents elect, the next controller, and `stepahead ctl sweep --all`.
package temporary

import (
	"time"

	"github.com/stepahead-io/stepahead/controller/plan"
	"github.com/stepahead-io/stepahead/store"
)

// Folder is the place of marks in a store, and DataFolder that of data which exists only for a while: siblings of hot files, copies of checkpoints.
const (
	Folder     = "/.stepahead/temporary"
	DataFolder = "/.stepahead/data"
)

// Attribute is the attribute of a file whose replication or storage policy is changed for a while (store.Attributer). Its value is the name of the mark.
const Attribute = "stepahead.raised"

// Version is that of marks.
const Version = 1

// Mark says what a placement made in the store in which the mark lies, and how it was before.
type Mark struct {
	Version int `json:"v"`
	// Controller is the name of the journal that gave the number, Placement the number.
	Controller string  `json:"controller"`
	Placement  plan.ID `json:"placement"`
	// Means is what made it, Path and Identity what of: of siblings and raised files a name in this store, of copies the URL of the original.
	Means    plan.Means `json:"means"`
	Path     string     `json:"path"`
	Identity string     `json:"identity"`
	// Place is a file or folder in this store that is deleted with all that is in it; "" for none. It lies in DataFolder.
	Place string `json:"place,omitempty"`
	// Row is the name of a row of the catalogue in this store; "" for none. It lies in catalogue.Folder.
	Row string `json:"row,omitempty"`
	// Was is how the file at Path was before it was raised; nil where it was not changed.
	Was *Was `json:"was,omitempty"`
	// TTL is how long what was made may last after the mark was written, by the clock of the store.
	TTL time.Duration `json:"ttl_ns"`
	Job string        `json:"job,omitempty"`
	Why string        `json:"why,omitempty"`
}

// Was is how a file was before it was raised.
type Was struct {
	Replicas int `json:"replicas"`
	// Policy is nil where the storage policy is not changed.
	Policy *store.StoragePolicy `json:"policy,omitempty"`
	// Located are the replicas.
	Located []store.Replica `json:"located,omitempty"`
}
