#!/usr/bin/env bash
# Fuzz everything that a worker does to an encoded image, for the time given (`1h`, `10m`, `90s` or `90s` when none is), with
# JOBS processes (default 1). C is built with AddressSanitizer and UndefinedBehaviorSanitizer, C and Go with coverage. Findings
# lie in build/fuzz/findings; the exit code is 1 if there are any. The corpus in build/fuzz/corpus is kept for the next time.
set -euo pipefail
cd "$(dirname "$0")/../.."

jobs=${JOBS:-1}
work=$PWD/build/fuzz
image=github.com/stepahead-io/stepahead/transform/image

say() { echo "fuzz: $*"; }

seconds_of() {
  case $1 in
    *[!0-9hms]* | *[hms]*[0-9hms] | [hms] | *[0-9]) echo "fuzz: TIME=$1: give hours, minutes or seconds, such as 1h, 10m or 90s" >&2 && exit 2 ;;
    *h) echo $((${1%h} * 3600)) ;;
    *m) echo $((${1%m} * 60)) ;;
    *s) echo "${1%s}" ;;
  esac
}

# build makes the fuzzer. Where the image libraries were built for fuzzing, their archives are found first.
build() {
  local sanitize=-fsanitize=address,undefined cover=()
  for package in "$image" "$image/pixel" image/gif compress/lzw; do cover+=("-gcflags=$package=-d=libfuzzer"); done
  # The other ways that must give the same are known to the tests.
  printf '{"Replace": {"%s": "%s"}}' "$PWD/transform/image/ways.go" "$PWD/transform/image/ways_test.go" >"$work/overlay.json"
  CC=clang CGO_ENABLED=1 \
    CGO_CFLAGS="-g -fno-omit-frame-pointer $sanitize,fuzzer-no-link -fno-sanitize-coverage=trace-cmp -fno-sanitize-recover=undefined -Wno-unknown-warning-option" \
    CGO_LDFLAGS="-L$work/lib $sanitize -Wl,--unresolved-symbols=ignore-all" \
    go build -buildmode=c-archive -tags fuzzworker,libfuzzer -overlay "$work/overlay.json" "${cover[@]}" \
    -o "$work/worker.a" ./transform/image/internal/fuzzworker
  clang++ -fsanitize=fuzzer,address,undefined -o "$work/fuzzworker" "$work/worker.a" "-L$work/lib" \
    -l:libjpeg.a -l:libpng16.a -l:libwebpdemux.a -l:libwebp.a -l:libz.a -lm -lpthread
}

# seed makes inputs to start from: 48 bytes that choose a plan, another one for each small file, then the file. What
# was found before has its plan already.
seed() {
  python3 - "$work/seeds" transform/image/vectors transform/image/testdata/found ${STEPAHEAD_TESTDATA:+"$STEPAHEAD_TESTDATA"} <<'P'
import hashlib, pathlib, sys
out, most = pathlib.Path(sys.argv[1]), 48 << 10
for root in sys.argv[2:]:
    for path in sorted(pathlib.Path(root).rglob("*")):
        if path.is_file() and path.stat().st_size <= most:
            data = path.read_bytes()
            if not root.endswith("found"):
                data = hashlib.sha512(path.name.encode()).digest()[:48] + data
            (out / hashlib.sha1(data).hexdigest()).write_bytes(data)
P
}

count() { find "$@" -type f | wc -l; }

# run fuzzes until the time is over. A finding ends the process and the next one goes on, unless it ends with the same one.
run() {
  local log=$work/log.$1 end=$((SECONDS + $2)) left had=-1
  : >"$log"
  while left=$((end - SECONDS)) && [ "$left" -gt 0 ] && [ "$(count "$work/findings")" -gt "$had" ]; do
    had=$(count "$work/findings")
    GOGC=400 ASAN_OPTIONS=quarantine_size_mb=16:allocator_may_return_null=1:handle_abort=1 UBSAN_OPTIONS=print_stacktrace=1 \
      "$work/fuzzworker" -max_total_time="$left" -timeout=300 -rss_limit_mb=1536 -malloc_limit_mb=48 -max_len=65536 \
      -print_final_stats=1 -artifact_prefix="$work/findings/" "$work/corpus" "$work/seeds" >>"$log" 2>&1 || true
  done
}

main() {
  local seconds before runs found
  seconds=$(seconds_of "$1")
  internal/setup/system.sh fuzz
  internal/setup/fuzzlibs.sh
  mkdir -p "$work/corpus" "$work/findings" "$work/seeds"
  build
  seed
  before=$(count "$work/findings")
  say "$jobs process(es), $1, $(count "$work/seeds" "$work/corpus") inputs to start from"
  rm -f "$work"/log.*
  for job in $(seq "$jobs"); do run "$job" "$seconds" & done
  wait
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work"/log.* | awk '{n += $1} END {print n + 0}')
  found=$(($(count "$work/findings") - before))
  say "$runs executions, $(grep -ho 'cov: [0-9]* ft: [0-9]*' "$work"/log.* | tail -1), $(count "$work/corpus") inputs in the corpus, $found findings"
  [ "$found" -eq 0 ] || { say "see build/fuzz/findings and build/fuzz/log.*; one again: build/fuzz/fuzzworker FILE" && return 1; }
  [ "$runs" -gt 0 ] || { say "nothing ran: see build/fuzz/log.*" && return 1; }
}

main "${1:-90s}"
exit
