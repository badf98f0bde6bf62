#!/usr/bin/env bash
# Make build/peers: an environment with what the benchmarks compare with (requirements/peers.txt), beside the packages of
# .venv, torch among them. A peer that cannot be had is named here and again in the benchmark's table; the rest is measured.
# Quick when nothing changed. `peers.sh hdfs` makes build/peers-hdfs of requirements/peers-hdfs.txt, which is small.
set -euo pipefail
cd "$(dirname "$0")/../.."

python=.venv/bin/python
of=${1:+-$1}
peers=build/peers$of
requirements=requirements/peers$of.txt
stamp=$peers/.stamp

say() { echo "peers: $*" >&2; }

[ -x "$python" ] || {
  say "no .venv: run make setup first"
  exit 3
}

want=$(cat "$requirements" internal/setup/peers.sh .venv/.stepahead-stamp | sha256sum | cut -c1-16)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$want" ]; then
  exit 0
fi

say "making $peers"
rm -rf "$peers"
mkdir -p build
"$python" -m venv "$peers"
shared=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
site=$("$peers/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
echo "$shared" >"$site/stepahead-venv.pth"
# The torch of an environment outside .venv, if that is the one in use.
if [ -f "$shared/stepahead-active-torch.pth" ]; then
  cp "$shared/stepahead-active-torch.pth" "$site/"
fi

pip() { "$peers/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile --no-deps "$@"; }

# One at a time where all together fail, so that one missing package costs one peer.
pip -r "$requirements" || while read -r requirement; do
  pip "$requirement" || say "MISSING: $requirement cannot be installed"
done < <(grep -v '^#' "$requirements")

system() {
  if ! dpkg -s "$@" >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ]; then sudo=(); else sudo=(sudo); fi
    say "installing $*"
    "${sudo[@]}" apt-get update -qq
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
  fi
}

if [ -n "$of" ]; then
  echo "$want" >"$stamp"
  exit 0
fi

# SPDL loads the system's FFmpeg.
system libavdevice59 || say "MISSING: SPDL needs FFmpeg's libraries (Debian: libavdevice59)"

# ffcv is a source package of 2023: it links OpenCV and libturbojpeg.
{ system libopencv-dev libturbojpeg0-dev pkg-config && pip --no-build-isolation ffcv==1.0.2; } ||
  say "MISSING: ffcv 1.0.2 cannot be built: it needs a C++ compiler and Debian's libopencv-dev, libturbojpeg0-dev, pkg-config"

echo "$want" >"$stamp"
