"""Build the wheel: the Go binding made by gopy, and the programs it needs beside it.

`gopy build` would add fast-math, libpython and an absolute RUNPATH, so only `gopy gen` is used and
the generated code is compiled here, with our own flags. The wheel carries stepahead-worker, which
links libjpeg-turbo, libpng and libwebp, statically where the static libraries exist.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

ROOT = pathlib.Path(__file__).resolve().parent
BINDING = "github.com/stepahead-io/stepahead/pybind"
PROGRAMS = ("stepahead", "stepahead-worker")

# No floating-point shortcuts anywhere: -ffp-contract=off keeps a*b+c two roundings on every CPU.
C_FLAGS = "-O2 -ffp-contract=off -w"


def run(command: list, environment: dict[str, str], cwd: pathlib.Path = ROOT) -> None:
    subprocess.run([str(part) for part in command], cwd=cwd, env=environment, check=True)


def environment(**changes: str) -> dict[str, str]:
    flags = f"{os.environ.get('GOFLAGS', '')} -mod=readonly -trimpath -buildvcs=false".strip()
    return {**os.environ, "GOFLAGS": flags, **changes}


def build_binding(generated: pathlib.Path, target: pathlib.Path) -> None:
    """Generate the binding into `generated`, compile it, and put what Python imports into `target`."""
    tools = generated / "bin"
    source = generated / "gen"
    plain = environment()
    run(["go", "build", "-o", f"{tools}/", "github.com/go-python/gopy", "golang.org/x/tools/cmd/goimports"], plain)
    env = environment(
        PATH=f"{tools}{os.pathsep}{os.environ['PATH']}",
        CGO_CFLAGS=f"{C_FLAGS} -I{sysconfig.get_paths()['include']}",
        # CPython itself supplies the Py* symbols when it loads the module.
        CGO_LDFLAGS="-Wl,--unresolved-symbols=ignore-all",
    )
    run([tools / "gopy", "gen", "-no-make", f"-output={source}", f"-vm={sys.executable}", BINDING], env)
    name = BINDING.rsplit("/", 1)[1]
    main = source / f"{name}.go"
    # The generated flags name libpython and this machine's folders: ours come by environment.
    main.write_text(re.sub(r"(?m)^#cgo (CFLAGS|LDFLAGS).*\n", "", main.read_text()))
    run([tools / "goimports", "-w", main.name], env, cwd=source)
    for_header = source / f"{name}_go.so"
    run(["go", "build", "-buildmode=c-shared", "-o", for_header.name, main.name], env, cwd=source)
    run([sys.executable, "build.py"], env, cwd=source)
    for_header.unlink()
    library = f"_{name}" + sysconfig.get_config_var("EXT_SUFFIX")
    run(["go", "build", "-ldflags=-s -w", "-buildmode=c-shared", "-o", library, "."], env, cwd=source)
    target.mkdir(parents=True, exist_ok=True)
    for made in (library, "go.py", f"{name}.py", "__init__.py"):
        shutil.copy(source / made, target)


def build_programs(target: pathlib.Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    packages = [f"./cmd/{name}" for name in PROGRAMS]
    run(["go", "build", "-ldflags=-s -w", "-o", f"{target}/", *packages], environment(CGO_CFLAGS=C_FLAGS))


class GoBuild(build_ext):
    """Builds the binding and the programs with Go instead of a C compiler."""

    def build_extension(self, ext: Extension) -> None:
        if shutil.which("go") is None:
            raise SystemExit("stepahead: building from source needs Go 1.26 or newer on PATH (https://go.dev/dl)")
        native = pathlib.Path(self.get_ext_fullpath(ext.name)).resolve().parent
        # gopy writes a Go package, which must lie inside the module so that go.mod pins its imports.
        with tempfile.TemporaryDirectory(prefix=".gopy_build", dir=ROOT) as folder:
            build_binding(pathlib.Path(folder), native)
        build_programs(native.parent / "_bin")


setup(
    packages=find_packages("pybind/python", include=["stepahead", "stepahead.*"]),
    package_dir={"": "pybind/python"},
    package_data={"stepahead": ["py.typed", "_native/*.pyi"]},
    ext_modules=[Extension("stepahead._native._pybind", [])],
    cmdclass={"build_ext": GoBuild},
)
