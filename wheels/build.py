"""Wheels that need no compiler, for x86-64 and aarch64, by Zig's C++ from the package `ziglang`.

In: this repository, and two Pythons. Out: in dist/, for each machine a wheel for 3.11 and one, by the stable
ABI, for 3.12 and all later, checked.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from importlib import resources
from pathlib import Path

# Its libraries are in RHEL 8, Debian 10, Ubuntu 18.10 and whatever is newer.
GLIBC = "2.28"
MACHINES = ("x86_64", "aarch64")
# The second one's wheel is for all that are newer, too.
PYTHONS = ("3.11", "3.12")
MAX_BYTES = 8_000_000
ROOT = Path(__file__).parent.parent


def build_core(machine: str) -> Path:
    """What does not depend on the Python, in a library, and the fuzz target with it."""
    folder = ROOT / "build/cross" / machine / "core"
    settings = {"KRILL_FUZZ": "ON", "CMAKE_TOOLCHAIN_FILE": ROOT / "wheels/zig.cmake"}
    ninja = Path(sys.executable).with_name("ninja")
    arguments = [f"-D{key}={value}" for key, value in {**settings, "CMAKE_MAKE_PROGRAM": ninja}.items()]
    run("cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", *arguments, **zig(machine))
    run("cmake", "--build", folder, **zig(machine))
    return folder / "libkrill_core.a"


def build(machine: str, python: str, core: Path, output: Path) -> None:
    """One wheel in `output`."""
    environment = {
        "_PYTHON_HOST_PLATFORM": f"linux-{machine}",
        "SETUPTOOLS_EXT_SUFFIX": f".cpython-{python.replace('.', '')}-{machine}-linux-gnu.so",
        **zig(machine),
    }
    settings = {
        "cmake.define.CMAKE_TOOLCHAIN_FILE": ROOT / "wheels/zig.cmake",
        "cmake.define.KRILL_CORE_LIBRARY": core,
        "build-dir": ROOT / "build/cross" / machine / python,
    }
    run(
        *("uv", "build", "--wheel", "--python", python, "--out-dir", output, ROOT),
        *(f"--config-setting={key}={value}" for key, value in settings.items()),
        **environment,
    )
    platform = f"manylinux_{GLIBC.replace('.', '_')}_{machine}"
    (built,) = output.glob(f"*-linux_{machine}.whl")
    run("wheel", "tags", "--remove", "--platform-tag", platform, built)


def zig(machine: str) -> dict[str, str]:
    """What zig.cmake asks for."""
    return {
        "KRILL_ZIG": str(resources.files("ziglang") / "zig"),
        "KRILL_TARGET": f"{machine}-linux-gnu.{GLIBC}",
    }


def check(wheel: Path) -> str:
    """What the auditors say of a wheel; one that is not what its name says ends the program."""
    platform = wheel.stem.rpartition("-")[2]
    # From the versions of symbols, and the instructions that the binary says it requires.
    audit = json.loads(run("auditwheel", "show", "--json", wheel))
    if not is_at_most(audit["overall_tag"], platform):
        sys.exit(f"{wheel.name}: auditwheel says `{audit['overall_tag']}`")
    if "-abi3-" in wheel.name:
        run("abi3audit", "--strict", wheel)
    size = wheel.stat().st_size
    if size > MAX_BYTES:
        sys.exit(f"{wheel.name}: {size:,} bytes, more than {MAX_BYTES:,}")
    return f"{wheel.name}: {size / 1e6:.1f} MB, {audit['overall_tag']}"


def is_at_most(found: str, promised: str) -> bool:
    """Whether a wheel with the tag `found` runs wherever one with `promised` does."""
    tags = [re.fullmatch(r"manylinux_(\d+)_(\d+)_(\w+)", tag) for tag in (found, promised)]
    versions = [(int(tag[1]), int(tag[2])) for tag in tags if tag]
    return len(versions) == 2 and versions[0] <= versions[1] and len({tag[3] for tag in tags if tag}) == 1


def run(command: str, *arguments: str | Path, **environment: str) -> str:
    """What a program of this environment prints; if it fails, that is shown and ends this one."""
    program = Path(sys.executable).with_name(command)
    done = subprocess.run(
        [program, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}`{command}` failed")
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machine", action="append", choices=MACHINES, help="default: all")
    parser.add_argument("--python", action="append", help="default: 3.11 and 3.12")
    parser.add_argument("--output", type=Path, default=ROOT / "dist")
    options = parser.parse_args()
    for machine in options.machine or MACHINES:
        core = build_core(machine)
        for python in options.python or PYTHONS:
            build(machine, python, core, options.output)
    for wheel in sorted(options.output.glob("*.whl")):
        print(check(wheel))


if __name__ == "__main__":
    main()
