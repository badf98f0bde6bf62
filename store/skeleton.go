package store

import (
	"errors"
)

type RetryOptions struct{}

func Retry(s Store, o RetryOptions) Store { return s }

type LimitOptions struct{}

func Limit(s Store, o LimitOptions) Store { return s }

type Metrics struct{}

func Measure(s Store, m *Metrics) Store { return s }

type Fault struct{}

func ParseFaults(text string) ([]Fault, error) { return nil, errors.ErrUnsupported }
func Faults(s Store, faults []Fault) Store     { return s }
