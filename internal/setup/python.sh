#!/usr/bin/env bash
# Make the local Python environment .venv: the packages of requirements/test.txt, torch, and megatron-core.
# torch is the active environment's if it has one; otherwise the PyPI wheel without its 2.5 GB of
# CUDA packages, with stand-ins for the libraries that are missing (torch_cpu_stubs.py).
# Quick when nothing changed: a stamp holds a hash of all that decides the content.
set -euo pipefail
cd "$(dirname "$0")/../.."

python=${PYTHON:-python3}
venv=.venv
stamp=$venv/.stepahead-stamp

say() { echo "setup: $*"; }

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || {
  echo "setup: $python is older than 3.10: set PYTHON to a newer one" >&2
  exit 3
}

active_torch=$("$python" - <<'PY' 2>/dev/null || true
import os, torch
print(torch.__version__, os.path.dirname(os.path.dirname(torch.__file__)))
PY
)
want=$(cat requirements/test.txt requirements/torch.txt requirements/megatron.txt internal/setup/python.sh internal/setup/torch_cpu_stubs.py |
  cat - <("$python" -VV; echo "$active_torch") | sha256sum | cut -c1-16)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$want" ]; then
  exit 0
fi

say "making $venv with $("$python" -V)"
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
rm -f "$stamp"
pip() { "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile "$@"; }

say "installing requirements/test.txt"
pip -r requirements/test.txt

site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
if [ -n "$active_torch" ]; then
  say "using torch ${active_torch%% *} of the active environment"
  echo "${active_torch#* }" >"$site/stepahead-active-torch.pth"
else
  rm -f "$site/stepahead-active-torch.pth"
  say "installing torch for the CPU (540 MB; set up an environment with your own torch first to avoid it)"
  pip --no-deps -r requirements/torch.txt 2> >(grep -v -e 'dependency resolver' -e '^torch .* requires' >&2)
  pip filelock typing-extensions sympy networkx jinja2 fsspec 2> >(grep -v -e 'dependency resolver' -e '^torch .* requires' >&2)
  "$venv/bin/python" internal/setup/torch_cpu_stubs.py "$site"
fi
pip --no-deps -r requirements/megatron.txt
"$venv/bin/python" -c 'import torch; print("setup: torch", torch.__version__, "CUDA" if torch.cuda.is_available() else "CPU only")'
echo "$want" >"$stamp"
