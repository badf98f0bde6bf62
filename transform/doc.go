// Package transform knows the versioned operators, the plan they form, its digest, and what a plan
// does to one sample: which parameters are drawn, which pixels are taken, which dtype comes out.
//
// It touches no pixel except in [Finisher], which casts, normalizes and erases at the consumer.
// Codecs and kernels live in transform/image and run in worker processes (transform/worker), which
// execute the [Resolved] steps that [Plan.Resolve] computes here.
package transform
