// Package controller decides which bytes should be where and until when, does it, and undoes it.
//
// Three parts share the work, and each knows one thing:
//
//   - controller/plan decides. Planner.Step takes an event and a time and returns actions. It knows no store, no file and no clock.
//   - controller/journal remembers. A record is durable when Append returns, and after a crash the journal is a prefix of what was written.
//   - the executor acts. It is the only part with goroutines, a clock and stores.
//
// # What the executor promises the planner
//
// It calls Step from one goroutine, with times of one monotonic clock, and again with Tick when Wake says so. It begins actions in the order in which
// they were returned; those of different placements may then be under way at once, those of one placement never are: a Remove first ends
// the Make that is under way. For every action with an ID but Pace and Extend it reports exactly one Done or Failed, however late;
// for every Look and Inspect it reports what it found, also that there is nothing.
//
// # What it does for each action that changes the world
//
//  1. Read what has to be known to undo it: for replicas the placement, the replication and the storage policy as they are now.
//  2. Append an intent and that fact to the journal, in one call.
//  3. Read the controller's lease again. It is somebody else's: stop, and change nothing any more.
//  4. Act. Every action can be repeated: one that was done already does nothing and succeeds.
//  5. Append done or failed, and then tell the planner.
//
// The body of an intent is the action as JSON (Make and the others have stable keys) with the end of its lease by the wall clock beside it; lengths of time in
// actions count from the moment of the action. A Make that shares the content of another (Of) sends nothing: its Publish names that one's place.
//
// # After a restart
//
// A placement is over when its remove is done, or, of the means even, its withdraw. All others in the journal are given to a new planner as Held, before any
// event but the settings and hints: Made if a make is done, Published if a publish was intended since the last withdraw that is done, Undoing if a withdraw or
// remove was intended. Where the world says otherwise, the world is right: what is not there is removed from the journal, what is there and is marked as ours,
// but not in the journal, is undone. Then the ledger of hints is read from its beginning; what nobody asks for within two minutes is undone. Options.NextID is
// one more than Journal.LastPlacement.
package controller
