// Package fetch knows the tensor wire that loader and agent share, and which agent owns a sample.
//
// A loader asks an agent for entries ([Client.Fetch]); the agent answers each one with a prepared
// tensor, with the raw bytes and a reason, or with a reason alone ([Handler]). A fallback is a value,
// not an error: an error means that the wire failed, and every want that was not answered until then
// is the loader's to make.
//
// Bytes are plain protobuf on the wire (docs/protocol.md) but are not copied into a message to be
// sent, and are copied once when they are received, from gRPC's buffers to the caller's memory.
package fetch
