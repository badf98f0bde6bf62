#!/usr/bin/env bash
# Install the system packages that the build needs, if they are missing: the headers of
# libjpeg-turbo, libpng and libwebp, and those of Python. Debian and Ubuntu; elsewhere it says
# what to install. Quiet and quick when nothing is missing. With the argument `test` also what the tests
# need: a compiler and an emulator for arm64, whose kernels are compared with the others, and Java and Maven for a real
# HDFS. With `hdfs` only the latter besides. With `fuzz` Clang and its fuzzer.
set -euo pipefail

python=${PYTHON:-python3}

say() { echo "setup: $*"; }

die() {
  echo "setup: $*" >&2
  exit 3
}

has_header() {
  printf '#include <stdio.h>\n#include <%s>\n' "$1" | cc -E -o /dev/null - 2>/dev/null
}

command -v cc >/dev/null || die "no C compiler: install one (Debian: apt-get install build-essential)"
command -v go >/dev/null || die "no Go: install Go 1.26 or newer from https://go.dev/dl"
command -v "$python" >/dev/null || die "no $python: install Python 3.10 or newer, or set PYTHON"

missing=()
has_header jpeglib.h || missing+=(libjpeg-dev)
has_header png.h || missing+=(libpng-dev)
has_header webp/demux.h || missing+=(libwebp-dev)
headers=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["include"])')
[ -f "$headers/Python.h" ] || missing+=(python3-dev)
"$python" -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
if [ "${1:-}" = test ]; then
  command -v aarch64-linux-gnu-gcc >/dev/null || missing+=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross)
  command -v qemu-aarch64-static >/dev/null || missing+=(qemu-user-static)
fi
if [ "${1:-}" = test ] || [ "${1:-}" = hdfs ]; then
  command -v javac >/dev/null && command -v jar >/dev/null || missing+=(default-jdk-headless)
  command -v mvn >/dev/null || missing+=(maven)
fi
if [ "${1:-}" = fuzz ]; then
  command -v clang++ >/dev/null || missing+=(clang)
  [ -e "$(clang -print-file-name="libclang_rt.fuzzer-$(uname -m).a" 2>/dev/null)" ] || missing+=(libclang-rt-dev)
  command -v dpkg-source >/dev/null || missing+=(dpkg-dev)
fi

[ ${#missing[@]} -gt 0 ] || exit 0

command -v apt-get >/dev/null || die "missing ${missing[*]} (Debian names): install them with this system's package manager"
sudo=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || die "missing ${missing[*]}: run as root: apt-get install ${missing[*]}"
  sudo=(sudo)
fi
say "installing system packages: ${missing[*]}"
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
