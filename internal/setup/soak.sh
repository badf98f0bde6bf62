#!/usr/bin/env bash
# The long tests: 20 CPU-minutes of fuzzing the worker, every fuzz target for a while, then the long Go and Python tests (kill
# series, leaks, many configurations). STEPAHEAD_FUZZ_SECONDS is the time for each fuzz target (default 12).
set -euo pipefail
cd "$(dirname "$0")/../.."

seconds=${STEPAHEAD_FUZZ_SECONDS:-12}
export STEPAHEAD_SOAK=1

# fuzz runs one target. Go makes each input that reaches new code smaller, for up to a minute unless told otherwise: that would
# be all of the time. At the end of its time it sometimes reports the end itself as a failure; a real one names its input.
fuzz() {
  local log
  log=$(mktemp)
  if ! go test -run '^$' -fuzz "^$1\$" -fuzztime "${seconds}s" -fuzzminimizetime 100x "$2" 2>&1 | tee "$log" &&
    { grep -q 'Failing input' "$log" || ! grep -qx ' *context deadline exceeded' "$log"; }; then
    return 1
  fi
  rm -f "$log"
}

JOBS=2 internal/setup/fuzz.sh 10m

targets=0
while read -r package; do
  while read -r target; do
    echo "soak: $package $target for $seconds s"
    fuzz "$target" "$package"
    targets=$((targets + 1))
  done < <(grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$(go list -f '{{.Dir}}' "$package")"/*_test.go 2>/dev/null | sed 's/^func //' | sort -u)
done < <(go list ./...)
echo "soak: $targets fuzz targets done"
[ "$targets" -gt 0 ]

# C that reads or writes past the end of Go's memory.
STEPAHEAD_SOAK='' ASAN_OPTIONS=detect_leaks=0 go test -asan ./transform/image

go test -timeout 40m ./...
.venv/bin/python -m pytest
