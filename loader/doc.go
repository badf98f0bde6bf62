// Package loader knows how to give a rank its next batch in order: from tensors that agents prepared
// or from ones it makes itself, with the same bytes either way, and how to stop and resume.
//
// A Loader runs a few steps ahead of its caller. Every step is built on its own: the sampler says
// which samples the rank needs, agents that own them are asked, whatever they do not deliver in time
// is read from the store and run through the local workers, and the step is handed over when its turn
// has come. Nothing that an agent does or fails to do changes what is delivered; docs/loader.md tells
// how to read what it changes, the time.
package loader
