#!/usr/bin/env bash
# Build the image libraries once more for fuzzing, from the distribution's own sources: with coverage, so that the fuzzer
# sees its way into them, and with AddressSanitizer, in C only. They go to build/fuzz/lib. Nothing is
# installed; where the sources cannot be had the fuzzer links the distribution's libraries and is blind inside them.
set -euo pipefail
cd "$(dirname "$0")/../.."
self=$PWD/internal/setup/fuzzlibs.sh

work=$PWD/build/fuzz
clang=clang
flags=(-O1 -g -fno-omit-frame-pointer -fsanitize=address,fuzzer-no-link -fno-sanitize-coverage=trace-cmp -w)

say() { echo "fuzz: $*"; }

# sources fetches and unpacks source packages through apt, with lists of its own: the release's entries in the system's
# lists, with their mirrors and keys, but for sources in place of packages.
sources() {
  rm -rf "$work/apt" "$work/src"
  mkdir -p "$work/apt/parts" "$work/apt/lists/partial" "$work/src"
  local file suite parts=$work/apt/parts
  suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
  for file in /etc/apt/sources.list.d/*.sources; do
    [ ! -f "$file" ] || awk -v RS= -v ORS='\n\n' -v suite="$suite" '
      $0 ~ "(^|\n)Suites:([^\n]* )?" suite "( |\n|$)" {
        sub(/Types:[^\n]*/, "Types: deb-src"); sub(/Suites:[^\n]*/, "Suites: " suite); print
      }' "$file" >"$parts/${file##*/}"
  done
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ ! -f "$file" ] || sed -nE "s/^deb( .* $suite .*)/deb-src\1/p" "$file" >"$parts/${file##*/}"
  done
  local apt=(apt-get -qq -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$work/apt/parts"
    -o "Dir::State::lists=$work/apt/lists" -o APT::Sandbox::User=root)
  (cd "$work/src" && "${apt[@]}" update && "${apt[@]}" source libjpeg-turbo libpng1.6 libwebp zlib) >"$work/apt/log" 2>&1
}

# archive NAME FLAG... -- FILE... compiles the files into lib/NAME.a.
archive() {
  local name=$1 own=() objects=()
  shift
  while [ "$1" != -- ]; do own+=("$1"); shift; done
  shift
  mkdir -p "$work/obj/$name"
  for file in "$@"; do
    local object=$work/obj/$name/${file//\//_}.o
    "$clang" "${flags[@]}" "${own[@]}" -c "$file" -o "$object"
    objects+=("$object")
  done
  rm -f "$work/lib/$name.a"
  ar rcs "$work/lib/$name.a" "${objects[@]}"
}

headers() { printf '#include <%s>\n' "$1" | "$clang" -E -I/usr/include/libpng16 - | sed -n "s|^# 1 \"\(/.*\)/$1\".*|\1|p" | head -1; }

build() {
  mkdir -p "$work/lib"
  (
    cd "$work"/src/libjpeg-turbo-*/
    cat >jconfigint.h <<'H'
#define BUILD "fuzz"
#undef inline
#define INLINE inline
#define THREAD_LOCAL __thread
#define PACKAGE_NAME "libjpeg-turbo"
#define VERSION "fuzz"
#define SIZEOF_SIZE_T 8
#define HAVE_BUILTIN_CTZL
#define FALLTHROUGH __attribute__((fallthrough));
H
    sed 's/@[A-Z_]*@/fuzz/g' jversion.h.in >jversion.h
    cp "$(headers jconfig.h)/jconfig.h" .
    archive libjpeg -I. -- $(ls j*.c | grep -vE 'ext\.c|565\.c|-tj\.c|jstdhuff|jcstest|jpegtran')
  )
  (
    cd "$work"/src/zlib-*/
    archive libz -D_LARGEFILE64_SOURCE=1 -DHAVE_UNISTD_H -- adler32.c compress.c crc32.c deflate.c infback.c inffast.c inflate.c inftrees.c trees.c uncompr.c zutil.c
  )
  (
    cd "$work"/src/libpng1.6-*/
    cp "$(headers pnglibconf.h)/pnglibconf.h" .
    archive libpng16 -I. -DPNG_INTEL_SSE_OPT=0 -- png.c pngerror.c pngget.c pngmem.c pngpread.c pngread.c pngrio.c pngrtran.c pngrutil.c pngset.c pngtrans.c pngwio.c pngwrite.c pngwtran.c pngwutil.c
  )
  (
    cd "$work"/src/libwebp-*/
    archive libwebp -I. -- src/dec/*.c src/dsp/*.c src/utils/*.c
    archive libwebpdemux -I. -- src/demux/*.c
  )
}

if [ "${1:-}" = build ]; then
  build
  exit
fi
[ ! -f "$work/lib/complete" ] || exit 0
rm -rf "$work/lib" "$work/obj"
if ! sources; then
  say "no sources of the image libraries ($(tail -1 "$work/apt/log")): linking the distribution's, uninstrumented"
elif ! "$self" build >"$work/build.log" 2>&1; then
  say "the image libraries do not build with $clang (build/fuzz/build.log): linking the distribution's, uninstrumented"
  rm -rf "$work/lib"
else
  touch "$work/lib/complete"
fi
rm -rf "$work/src" "$work/apt" "$work/obj" # there are Go files among the sources, which would count as this module's
