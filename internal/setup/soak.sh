#!/usr/bin/env bash
# The long tests: 20 CPU-minutes of fuzzing the worker, every fuzz target for a while, then the long Go and Python tests (kill
# series, leaks, many configurations). STEPAHEAD_FUZZ_SECONDS is the time for each fuzz target (default 15).
set -euo pipefail
cd "$(dirname "$0")/../.."

seconds=${STEPAHEAD_FUZZ_SECONDS:-15}
export STEPAHEAD_SOAK=1

JOBS=2 internal/setup/fuzz.sh 10m

targets=0
while read -r package; do
  while read -r target; do
    echo "soak: $package $target for $seconds s"
    # Go makes each input that reaches new code smaller, for up to a minute unless told otherwise: all of the time.
    go test -run '^$' -fuzz "^$target\$" -fuzztime "${seconds}s" -fuzzminimizetime 100x "$package"
    targets=$((targets + 1))
  done < <(grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$(go list -f '{{.Dir}}' "$package")"/*_test.go 2>/dev/null | sed 's/^func //' | sort -u)
done < <(go list ./...)
echo "soak: $targets fuzz targets done"
[ "$targets" -gt 0 ]

# C that reads or writes past the end of Go's memory.
STEPAHEAD_SOAK='' ASAN_OPTIONS=detect_leaks=0 go test -asan ./transform/image

go test -timeout 40m ./...
.venv/bin/python -m pytest
