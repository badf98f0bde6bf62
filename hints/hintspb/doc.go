// Package hintspb holds the generated messages of hints; only hints imports it.
package hintspb
