// Package fetchpb holds the generated messages of the tensor wire; only agent/fetch imports it.
package fetchpb
