// Package controller decides which bytes should be where and until when, does it, and undoes it.
//
// Three parts share the work, and each knows one thing:
//
//   - controller/plan decides. Planner.Step takes an event and a time and returns actions. It knows no store, no file and no clock.
//   - controller/journal remembers. A record is durable when Append returns, and after a crash the journal is a prefix of what was written.
//   - controller/execute acts. It is the only one of the three with goroutines, a clock and stores.
//
// # What the executor promises the planner
//
// It calls Step from one goroutine, with times of one monotonic clock, and again with Tick when Wake says so. It begins actions in the order in which
// they were returned; those of different placements may then be under way at once, those of one placement never are: a Remove first ends
// the Make that is under way. For every action with an ID but Pace and Extend it reports exactly one Done or Failed, however late;
// for every Look and Inspect it reports what it found, also that there is nothing. A Pace changes the rate at once; one above 0 of a Make that failed, or that a
// predecessor began, has it go on, and that is answered as a Make. An Extend is repeated until it is done.
//
// # What it does for each action that changes the world
//
//  1. Before the first Make, read what has to be known to undo it: for replicas the placement, the replication and the storage policy as they are now.
//  2. Append an intent and that fact to the journal, in one call. Without its record nothing begins, but for what undoes: that is done also when the
//     journal cannot be written, since the marks in the stores say too that it has to be.
//  3. Read the controller's lease again. It is somebody else's: stop, and change nothing any more. It cannot be read: this action fails.
//  4. Act. Every action can be repeated: one that was done already does nothing and succeeds. A maker asks for the lease before each change that it makes.
//  5. Append done or failed, and then tell the planner. If that cannot be written the planner is told all the same: after a restart it is done again.
//
// The body of an intent is the action as JSON (Make and the others have stable keys) with the end of its lease by the wall clock beside it; lengths of time in
// actions count from the moment at which the action is begun. A Make that shares the content of another (Of) sends nothing: its Publish names that one's place.
//
// # After a restart
//
// A placement is over when its remove is done, or, of the means even, its withdraw. All others in the journal are given to a new planner as Held, before any
// event but the settings: Made if a make is done and no remove was intended, Published if a publish was intended since the last withdraw that is done, Undoing if a
// withdraw or remove was intended since the last publish. Left is what the mark in the store says by the store's clock, and at most the lease; without a mark, what the wall clock
// says, and at most the lease.
//
// Where the world says otherwise, the world is right: what has no mark is Undoing, what is marked as ours and is not in the journal is undone, and so is all that
// a predecessor with another journal made for the same files: nobody else may act for them while this controller has the lease, and no budget knows of it. What controllers of
// other files made at a site is left alone until its time is over. The same is looked at again once in each period.
//
// Then the ledger of hints is read from its beginning; what nobody asks for within two minutes, in which every agent that lives is heard, is undone. Options.NextID is one more than
// Journal.LastPlacement and than the number of any mark with this controller's name.
package controller
