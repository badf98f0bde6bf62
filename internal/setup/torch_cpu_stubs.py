"""Let the PyPI build of torch import on a machine without a GPU and without 2.5 GB of CUDA packages.

The PyPI wheel of torch is linked against CUDA libraries that come in separate packages. This
script reads which of them are missing and which of their symbols torch names (readelf), and
compiles for each a library of a few kilobytes in which every function answers "no device".
torch then imports, says that CUDA is not available, and trains on the CPU.

Usage: python torch_cpu_stubs.py [SITE_PACKAGES]
"""

from __future__ import annotations

import collections
import pathlib
import re
import subprocess
import sys
import sysconfig
import tempfile

CUDA_SONAME = re.compile(r"^lib(cu|nv|nccl)")

# Symbols that torch names without a version: the library is told from the prefix.
UNVERSIONED = {
    "libnccl": r"p?nccl",
    "libcufile": r"cuFile",
    "libcusparseLt": r"cusparseLt",
    "libcuda.so": r"cu[A-Z](?!File)",
    "libnvshmem": r"nvshmem",
}

NO_DEVICE = 100  # cudaErrorNoDevice

SPECIAL = {
    "cudaGetDeviceCount": f"int cudaGetDeviceCount(int *n) {{ if (n) *n = 0; return {NO_DEVICE}; }}",
    "cudaGetErrorString": 'const char *cudaGetErrorString(int e) { return "stub CUDA library: no device"; }',
    "cudaGetErrorName": 'const char *cudaGetErrorName(int e) { return "cudaErrorNoDevice"; }',
    "cudaGetLastError": "int cudaGetLastError(void) { return 0; }",
    "cudaPeekAtLastError": "int cudaPeekAtLastError(void) { return 0; }",
    "cudaDriverGetVersion": "int cudaDriverGetVersion(int *v) { if (v) *v = 0; return 0; }",
    "cudaRuntimeGetVersion": "int cudaRuntimeGetVersion(int *v) { if (v) *v = 0; return 0; }",
}


def readelf(flags: list[str], library: pathlib.Path) -> list[str]:
    result = subprocess.run(["readelf", *flags, str(library)], capture_output=True, text=True, check=True)
    return result.stdout.splitlines()


def needed_sonames(library: pathlib.Path) -> set[str]:
    lines = "\n".join(readelf(["-dW"], library))
    return {name for name in re.findall(r"\(NEEDED\).*\[(.+)\]", lines) if CUDA_SONAME.match(name)}


def version_owners(library: pathlib.Path) -> dict[str, str]:
    """Map each symbol version that the library needs to the soname that defines it."""
    owners: dict[str, str] = {}
    soname = ""
    for line in readelf(["-VW"], library):
        if found := re.search(r"File: (\S+)", line):
            soname = found[1]
        if (found := re.search(r"Name: (\S+)", line)) and soname:
            owners[found[1]] = soname
    return owners


def undefined_symbols(library: pathlib.Path) -> list[tuple[str, str]]:
    """The undefined dynamic symbols as (name, version or "")."""
    symbols = []
    for line in readelf(["-sW", "--dyn-syms"], library):
        fields = line.split()
        if len(fields) >= 8 and fields[6] == "UND":
            name, _, version = fields[7].partition("@")
            symbols.append((name, version.lstrip("@")))
    return symbols


def version_block(version: str, symbols: set[tuple[str, str]]) -> str:
    names = " ".join(f"{name};" for name, of in sorted(symbols) if of == version)
    return f"{version} {{ global: {names} }};\n"


def compile_stub(soname: str, symbols: set[tuple[str, str]], target: pathlib.Path) -> None:
    body = [SPECIAL.get(name, f"int {name}(void) {{ return {NO_DEVICE}; }}") for name, _ in sorted(symbols)]
    body.append("int stepahead_stub_marker;")
    versions = sorted({version for _, version in symbols if version})
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "stub.c")
        source.write_text("\n".join(body) + "\n")
        command = ["cc", "-shared", "-fPIC", "-O1", "-w", "-fno-builtin", "-o", str(target), str(source)]
        command.append("-Wl,-soname," + soname)
        if versions:
            script = pathlib.Path(folder, "versions.map")
            script.write_text("".join(version_block(version, symbols) for version in versions))
            command.append(f"-Wl,--version-script={script}")
        subprocess.run(command, check=True)


def main() -> int:
    site = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else sysconfig.get_paths()["purelib"])
    lib = site / "torch" / "lib"
    if not lib.is_dir():
        print(f"torch_cpu_stubs: no torch in {site}: install it first, with --no-deps", file=sys.stderr)
        return 3
    needed: set[str] = set()
    versioned: dict[str, set[tuple[str, str]]] = collections.defaultdict(set)
    unversioned: set[str] = set()
    for library in sorted(lib.glob("lib*.so*")):
        marker = library.with_name(library.name + ".is_stub")
        if library.suffix == ".is_stub" or marker.exists():
            continue
        needed |= needed_sonames(library)
        owners = version_owners(library)
        for name, version in undefined_symbols(library):
            soname = owners.get(version, "")
            if version and CUDA_SONAME.match(soname):
                versioned[soname].add((name, version))
            elif not version:
                unversioned.add(name)
    made = 0
    for soname in sorted(needed):
        target = lib / soname
        marker = target.with_name(soname + ".is_stub")
        real = target.exists() and not marker.exists()
        if soname.startswith("libcuda.so") or real or list(site.glob(f"nvidia/*/lib/{soname}")):
            continue  # libcuda.so belongs to the driver and is loaded lazily
        symbols = set(versioned.get(soname, set()))
        for prefix, pattern in UNVERSIONED.items():
            if soname.startswith(prefix):
                symbols |= {(name, "") for name in unversioned if re.match(pattern, name)}
        compile_stub(soname, symbols, target)
        marker.touch()
        made += 1
    print(f"torch_cpu_stubs: {made} stand-ins for missing CUDA libraries in {lib}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
