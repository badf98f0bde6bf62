#!/usr/bin/env bash
# Fuzz everything that a worker does to an encoded image, for the time given (`1h`, `10m`, `90s` or `90s` when none is), with
# JOBS processes (default 1). C is built with AddressSanitizer and UndefinedBehaviorSanitizer, C and Go with coverage. Findings
# lie in build/fuzz/findings; the exit code is 1 if there are any. The corpus in build/fuzz/corpus is kept for the next time.
set -euo pipefail
cd "$(dirname "$0")/../.."

time=${1:-90s}
jobs=${JOBS:-1}
work=$PWD/build/fuzz
image=github.com/stepahead-io/stepahead/transform/image

say() { echo "fuzz: $*"; }

case $time in
  *[!0-9hms]* | '' | *[0-9]) echo "fuzz: TIME=$time: give hours, minutes or seconds, such as 1h, 10m or 90s" >&2 && exit 2 ;;
  *h) seconds=$((${time%h} * 3600)) ;;
  *m) seconds=$((${time%m} * 60)) ;;
  *s) seconds=${time%s} ;;
esac

internal/setup/system.sh fuzz
internal/setup/fuzzlibs.sh
mkdir -p "$work/corpus" "$work/findings" "$work/seeds"

# Where the image libraries were built for fuzzing, their archives are found first.
sanitize=-fsanitize=address,undefined
export CC=clang CGO_ENABLED=1
export CGO_CFLAGS="-g -fno-omit-frame-pointer $sanitize,fuzzer-no-link -fno-sanitize-coverage=trace-cmp -fno-sanitize-recover=undefined -Wno-unknown-warning-option"
export CGO_LDFLAGS="-L$work/lib $sanitize -Wl,--unresolved-symbols=ignore-all"
# The other ways that must give the same are known to the tests.
printf '{"Replace": {"%s": "%s"}}' "$PWD/transform/image/ways.go" "$PWD/transform/image/ways_test.go" >"$work/overlay.json"
cover=()
for package in "$image" "$image/pixel" image/gif compress/lzw; do cover+=("-gcflags=$package=-d=libfuzzer"); done
go build -buildmode=c-archive -tags fuzzworker,libfuzzer -overlay "$work/overlay.json" "${cover[@]}" -o "$work/worker.a" ./transform/image/internal/fuzzworker
clang++ -fsanitize=fuzzer,address,undefined -o "$work/fuzzworker" "$work/worker.a" "-L$work/lib" \
  -l:libjpeg.a -l:libpng16.a -l:libwebpdemux.a -l:libwebp.a -l:libz.a -lm -lpthread

# An input is 32 bytes that choose the plan, then the image: here one plan for each small file.
python3 - "$work/seeds" transform/image/vectors transform/image/testdata/found ${STEPAHEAD_TESTDATA:+"$STEPAHEAD_TESTDATA"} <<'P'
import hashlib, pathlib, sys
out, most = pathlib.Path(sys.argv[1]), 48 << 10
for root in sys.argv[2:]:
    for path in sorted(pathlib.Path(root).rglob("*")):
        if path.is_file() and path.stat().st_size <= most:
            data = path.read_bytes()
            if "found" not in root:
                data = hashlib.sha256(path.name.encode()).digest() + data
            (out / hashlib.sha1(data).hexdigest()).write_bytes(data)
P

# run fuzzes until the time is over, however often an input ends the process.
run() {
  local log=$work/log.$1 end=$((SECONDS + seconds)) left
  : >"$log"
  while left=$((end - SECONDS)) && [ "$left" -gt 0 ]; do
    ASAN_OPTIONS=quarantine_size_mb=16:allocator_may_return_null=1:handle_abort=1 UBSAN_OPTIONS=print_stacktrace=1 \
      "$work/fuzzworker" -max_total_time="$left" -timeout=10 -rss_limit_mb=1536 -malloc_limit_mb=48 -max_len=65536 \
      -print_final_stats=1 -artifact_prefix="$work/findings/" "$work/corpus" "$work/seeds" >>"$log" 2>&1 || true
  done
}

before=$(find "$work/findings" -type f | wc -l)
say "$jobs process(es), $time, $(find "$work/seeds" "$work/corpus" -type f | wc -l) inputs to start from"
for job in $(seq "$jobs"); do run "$job" & done
wait
runs=$(cat "$work"/log.* | sed -n 's/^stat::number_of_executed_units: *//p' | awk '{n += $1} END {print n + 0}')
say "$runs executions, $(grep -ho 'cov: [0-9]* ft: [0-9]*' "$work"/log.* | tail -1), $(find "$work/corpus" -type f | wc -l) inputs in the corpus"
found=$(($(find "$work/findings" -type f | wc -l) - before))
say "$found findings"
[ "$found" -eq 0 ] || { say "see build/fuzz/findings and build/fuzz/log.*; one again: build/fuzz/fuzzworker FILE" && exit 1; }
