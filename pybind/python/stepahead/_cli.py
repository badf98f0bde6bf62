"""The command `stepahead`: runs the program that the wheel carries."""

from __future__ import annotations

import os
import pathlib
import sys


def program(name: str) -> pathlib.Path:
    """The path of a program that the wheel carries."""
    return pathlib.Path(__file__).parent / "_bin" / name


def main() -> int:
    """Replace this process by the Go program of the same name."""
    path = program("stepahead")
    if not path.exists():
        print(f"stepahead: {path} is missing: install the package with `pip install .`", file=sys.stderr)
        return 3
    os.execv(path, [str(path), *sys.argv[1:]])
