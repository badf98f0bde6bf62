// Package pybind knows how the loader looks from Python: flat functions over integers and JSON
// that gopy binds, none of which lets a panic or a Go pointer out.
package pybind

import (
	"fmt"
	"runtime/debug"
)

// caught turns a panic of the calling function into its error. A Go panic that left an exported
// function would abort the Python process.
func caught(op string, err *error) {
	if r := recover(); r != nil {
		*err = &codedError{fmt.Sprintf("EINTERNAL: pybind.%s: panic: %v\n%s", op, r, debug.Stack())}
	}
}
