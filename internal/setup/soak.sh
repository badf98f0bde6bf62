#!/usr/bin/env bash
# The long tests: 20 CPU-minutes of fuzzing the worker, every fuzz target for a while, then the long Go and Python tests (kill
# series, leaks, many configurations). STEPAHEAD_FUZZ_SECONDS is the time for each fuzz target (default 12).
set -euo pipefail
cd "$(dirname "$0")/../.."

seconds=${STEPAHEAD_FUZZ_SECONDS:-12}
export STEPAHEAD_SOAK=1

# fuzz runs one target of a package's test program, in the package's folder. Go makes each input that reaches new code smaller,
# for up to a minute unless told otherwise: that would be all of the time. At the end of its time it sometimes reports the end
# itself as a failure; a real one names its input.
fuzz() {
  local log=$work/log
  if ! "$work/test" -test.run '^$' -test.fuzz "^$1\$" -test.fuzztime "${seconds}s" -test.fuzzminimizetime 100x \
    -test.fuzzcachedir "$2" 2>&1 | tee "$log" &&
    { grep -q 'Failing input' "$log" || ! grep -qx ' *context deadline exceeded' "$log"; }; then
    return 1
  fi
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

JOBS=2 internal/setup/fuzz.sh 10m

targets=0
while read -r package folder; do
  names=$(grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$folder"/*_test.go 2>/dev/null | sed 's/^func //' | sort -u || true)
  [ -n "$names" ] || continue
  go test -c -fuzz . -o "$work/test" "$package"
  for target in $names; do
    echo "soak: $package $target for $seconds s"
    (cd "$folder" && fuzz "$target" "$(go env GOCACHE)/fuzz/$package")
    targets=$((targets + 1))
  done
done < <(go list -f '{{.ImportPath}} {{.Dir}}' ./...)
echo "soak: $targets fuzz targets done"
[ "$targets" -gt 0 ]

# C that reads or writes past the end of Go's memory.
STEPAHEAD_SOAK='' ASAN_OPTIONS=detect_leaks=0 go test -asan ./transform/image

go test -timeout 40m ./...
.venv/bin/python -m pytest
