// Package hints knows what can be foretold about a job, until when and how surely: it carries hints
// from trainers to agents, finds agents, and keeps the account of what foretelling was worth.
//
// Losing every hint changes speed only, and so does a second, late or reordered one. Times are
// durations from a hint's arrival: no decision here compares the clocks of two hosts.
package hints
