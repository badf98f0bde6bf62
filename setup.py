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


class GoBuild(build_ext):
    """Builds the binding and the programs with Go instead of a C compiler."""

    def build_extension(self, ext: Extension) -> None:
        if shutil.which("go") is None:
            raise SystemExit("stepahead: building from source needs Go 1.26 or newer on PATH (https://go.dev/dl)")
        target = pathlib.Path(self.get_ext_fullpath(ext.name)).resolve().parent
        target.mkdir(parents=True, exist_ok=True)
        # gopy writes a Go package, which must lie inside the module so that go.mod pins its imports.
        with tempfile.TemporaryDirectory(prefix=".gopy_build", dir=ROOT) as folder:
            self.build_binding(pathlib.Path(folder), target)
        self.build_programs(target.parent / "_bin")

    def build_binding(self, generated: pathlib.Path, target: pathlib.Path) -> None:
        tools = generated / "bin"
        tools.mkdir()
        self.go("build", "-o", f"{tools}/", "github.com/go-python/gopy", "golang.org/x/tools/cmd/goimports")
        self.environment["PATH"] = f"{tools}{os.pathsep}{self.environment['PATH']}"
        source = generated / "gen"
        self.run([tools / "gopy", "gen", "-no-make", f"-output={source}", f"-vm={sys.executable}", BINDING])
        name = BINDING.rsplit("/", 1)[1]
        main = source / f"{name}.go"
        # The generated flags name libpython and this machine's folders: ours come by environment.
        main.write_text(re.sub(r"(?m)^#cgo (CFLAGS|LDFLAGS).*\n", "", main.read_text()))
        self.run([tools / "goimports", "-w", main.name], cwd=source)
        header_only = f"{name}_go.so"
        self.go("build", "-mod=readonly", "-buildmode=c-shared", "-o", header_only, main.name, cwd=source)
        self.run([sys.executable, "build.py"], cwd=source)
        (source / header_only).unlink()
        library = f"_{name}" + sysconfig.get_config_var("EXT_SUFFIX")
        self.go("build", "-mod=readonly", "-trimpath", "-ldflags=-s -w", "-buildmode=c-shared", "-o", library, ".", cwd=source)
        for made in (library, "go.py", f"{name}.py", "__init__.py"):
            shutil.copy(source / made, target)

    def build_programs(self, target: pathlib.Path) -> None:
        target.mkdir(parents=True, exist_ok=True)
        packages = [f"./cmd/{name}" for name in PROGRAMS]
        self.go("build", "-mod=readonly", "-trimpath", "-ldflags=-s -w", "-o", f"{target}/", *packages)

    @property
    def environment(self) -> dict[str, str]:
        if not hasattr(self, "_environment"):
            self._environment = dict(os.environ)
            self._environment["GOFLAGS"] = (os.environ.get("GOFLAGS", "") + " -buildvcs=false").strip()
            self._environment["CGO_CFLAGS"] = f"{C_FLAGS} -I{sysconfig.get_paths()['include']}"
            # CPython itself supplies the Py* symbols when it loads the module.
            self._environment["CGO_LDFLAGS"] = "-Wl,--unresolved-symbols=ignore-all"
        return self._environment

    def go(self, *arguments: str, cwd: pathlib.Path = ROOT) -> None:
        self.run(["go", *arguments], cwd=cwd)

    def run(self, command: list, cwd: pathlib.Path = ROOT) -> None:
        subprocess.run([str(part) for part in command], cwd=cwd, env=self.environment, check=True)


setup(
    packages=find_packages("pybind/python", include=["stepahead", "stepahead.*"]),
    package_dir={"": "pybind/python"},
    package_data={"stepahead": ["py.typed", "*.pyi"]},
    ext_modules=[Extension("stepahead._native._pybind", [])],
    cmdclass={"build_ext": GoBuild},
)
