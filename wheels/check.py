"""The wheels in dist/ at work: without a compiler, on an old processor, on aarch64.

In: dist/, PyPI, and for what QEMU emulates an apt that knows Debian's archive. Out: what was
tried, a line each; the first failure ends it. All is kept in build/check, so that a second time takes less.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from debian import Debian, emulated_python

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "build/check"
UV = Path(sys.executable).with_name("uv")
# The last one runs by the stable ABI what was built for the one before.
PYTHONS = ("3.11", "3.12", "3.13")
COMPILERS = ("cc", "c++", "gcc", "g++", "clang", "clang++", "zig", "cmake", "ninja", "make")
# Of 2008: SSE4.2, which NumPy and Arrow ask for, and no AVX.
OLD_PROCESSOR = "Nehalem"
# The core with all its kernels, and what holds them to slow references.
NATIVE_TESTS = ("tests/unit/native",)
PROPERTY_TESTS = tuple(f"tests/unit/{name}" for name in ("corpus", "dedup", "pack", "text", "tokenizer"))
FUZZ_SECONDS = 20
# A Debian's suite, and its Python.
AARCH64 = {"3.11": "bookworm", "3.13": "trixie"}


def wheel(python: str, machine: str) -> Path:
    tag = "cp311-cp311" if python == "3.11" else "cp312-abi3"
    found = sorted((ROOT / "dist").glob(f"krill_lm-*-{tag}-*_{machine}.whl"))
    if not found:
        sys.exit(f"dist/ has no wheel `{tag}` for {machine}: run `make wheels` first")
    return found[-1]


def check_here(python: str) -> Path:
    """The wheel in a new environment that has no other program on its path; the environment's Python."""
    environment = FOLDER / f"python{python}"
    shutil.rmtree(environment, ignore_errors=True)
    programs = environment / "bin"
    path = {**os.environ, "PATH": str(programs)}
    subprocess.run([UV, "venv", "-q", "--python", python, environment], check=True)
    for name in COMPILERS:
        assert shutil.which(name, path=str(programs)) is None, name
    # The README's quickstart draws a report, and opens the dataset with `datasets`.
    made = f"krill-lm[hub,report] @ {wheel(python, 'x86_64').as_uri()}"
    subprocess.run([UV, "pip", "install", "-q", "--python", programs / "python", made], check=True, env=path)
    subprocess.run([programs / "python", ROOT / "wheels/smoke.py"], check=True, env=path, cwd=FOLDER)
    with TemporaryDirectory(dir=FOLDER) as folder:
        quickstart(programs, Path(folder), path)
    return programs / "python"


def quickstart(programs: Path, folder: Path, environment: dict[str, str]) -> None:
    """The README's: its config, its commands, its Python, in an empty folder."""
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## Quickstart\n")[1].split("\n## ")[0]
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    (folder / "data").mkdir()
    text = "Krill, whales and the sea. " * 40
    lines = "".join(json.dumps({"text": f"{number} {text}"}) + "\n" for number in range(400))
    (folder / "data/documents.jsonl").write_text(lines)
    (folder / "config.yaml").write_text(next(content for language, content in blocks if language == "yaml"))
    commands = [line for language, content in blocks if language == "bash" for line in content.splitlines()]
    settings = {"check": True, "env": environment, "cwd": folder, "stdout": subprocess.DEVNULL}
    for command in commands:
        words = shlex.split(command, comments=True)
        subprocess.run([programs / words[0], *words[1:]], **settings)
    program = "\n".join(content for language, content in blocks if language == "python")
    subprocess.run([programs / "python", "-c", program], **settings)
    print(f"the README's quickstart: {len(commands)} commands, and its Python")


def check_old_processor(python: Path, qemu: Path) -> None:
    """The same environment on a processor that knows nothing newer than SSE4.2."""
    script = python.with_name(f"python-{OLD_PROCESSOR}")
    script.write_text(
        f"#!/bin/sh\nexec '{qemu}/qemu-x86_64-static' -cpu {OLD_PROCESSOR} -0 \"$0\" '{python}' \"$@\"\n"
    )
    script.chmod(0o755)
    subprocess.run([script, ROOT / "wheels/smoke.py"], check=True, cwd=FOLDER)


def check_aarch64(version: str, qemu: Path) -> None:
    """The wheel at work on aarch64, then the native tests and the properties of kernels."""
    suite = AARCH64[version]
    debian = Debian(FOLDER / f"aarch64-{suite}", "aarch64", suite)
    debian.unpack(f"python{version}", "libstdc++6")
    packages = debian.folder / "packages"
    shutil.rmtree(packages, ignore_errors=True)
    target = (
        "--python-platform",
        "aarch64-manylinux_2_28",
        "--python-version",
        version,
        "--target",
        packages,
    )
    subprocess.run(
        [
            UV,
            "pip",
            "install",
            "-q",
            "--only-binary",
            ":all:",
            *target,
            wheel(version, "aarch64"),
            *("pytest", "hypothesis", "mmh3", "zstandard", "duckdb"),
        ],
        check=True,
    )
    python = emulated_python(debian, f"python{version}", qemu / "qemu-aarch64-static", packages)
    subprocess.run([python, ROOT / "wheels/smoke.py"], check=True, cwd=FOLDER)
    fuzz = [qemu / "qemu-aarch64-static", "-L", debian.root, ROOT / "build/cross/aarch64/core/krill_fuzz"]
    subprocess.run([*fuzz, str(FUZZ_SECONDS)], check=True, cwd=FOLDER)
    pytest = [python, "-m", "pytest", "-p", "no:cacheprovider"]
    subprocess.run([*pytest, *NATIVE_TESTS], check=True, cwd=ROOT)
    subprocess.run([*pytest, "-m", "hypothesis", *PROPERTY_TESTS], check=True, cwd=ROOT)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-qemu", action="store_true", help="only what runs on this machine itself")
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    pythons = [check_here(python) for python in PYTHONS]
    if options.no_qemu:
        return
    qemu = Debian(FOLDER / "qemu", "x86_64", "bookworm")
    qemu.unpack("qemu-user-static")
    check_old_processor(pythons[0], qemu.root / "usr/bin")
    for version in AARCH64:
        check_aarch64(version, qemu.root / "usr/bin")


if __name__ == "__main__":
    main()
