"""A Python of another machine in a folder, from Debian's packages, emulated by QEMU.

In: Debian's archive, by apt with a state of its own: nothing is installed on this machine. Out: a folder with
Python and what it needs, and a script that runs it.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

# In the words of Debian and of QEMU.
ARCHITECTURES = {"aarch64": "arm64", "x86_64": "amd64"}
SCRIPT = """#!/bin/sh
# Python asks for its own name: processes that it starts are to be emulated, too.
export PYTHONHOME='{root}/usr' PYTHONPATH='{packages}' PYTHONDONTWRITEBYTECODE=1
exec '{qemu}' -cpu {cpu} -L '{root}' -0 "$0" '{root}/usr/bin/{python}' "$@"
"""


@dataclass(frozen=True)
class Debian:
    """Packages of a Debian's `suite` for `machine`, unpacked into `folder`."""

    folder: Path
    machine: str
    suite: str

    @property
    def root(self) -> Path:
        return self.folder / "root"

    def unpack(self, *packages: str) -> None:
        """The packages and all that they depend on; what was unpacked before is not asked for again."""
        marker = self.folder / "unpacked"
        if marker.exists() and marker.read_text() == " ".join(packages):
            return
        for name in ("state/lists/partial", "cache/archives/partial", "etc/preferences.d"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "state/status").touch()
        (self.folder / "etc/sources.list").write_text(f"deb {_archive()} {self.suite} main\n")
        self._apt("update")
        self._apt("--yes", "--download-only", "install", *packages)
        # Packages have files in /lib and in /usr/lib, which are one folder.
        for name in ("bin", "sbin", "lib", "lib64"):
            (self.root / "usr" / name).mkdir(parents=True, exist_ok=True)
            if not (self.root / name).exists():
                (self.root / name).symlink_to(f"usr/{name}")
        for package in sorted((self.folder / "cache/archives").glob("*.deb")):
            subprocess.run(["dpkg-deb", "--extract", package, self.root], check=True)
        marker.write_text(" ".join(packages))

    def _apt(self, *arguments: str) -> None:
        settings = {
            "APT::Architecture": ARCHITECTURES[self.machine],
            "APT::Architectures": ARCHITECTURES[self.machine],
            "APT::Install-Recommends": "0",
            "Dir::State": self.folder / "state",
            "Dir::State::status": self.folder / "state/status",
            "Dir::Cache": self.folder / "cache",
            "Dir::Etc": self.folder / "etc",
            "Dir::Etc::trustedparts": "/etc/apt/trusted.gpg.d",
        }
        options = [f"-o{key}={value}" for key, value in settings.items()]
        subprocess.run(["apt-get", "-qq", *options, *arguments], check=True, stdout=subprocess.DEVNULL)


def emulated_python(debian: Debian, python: str, qemu: Path, packages: Path, cpu: str = "max") -> Path:
    """A script that is this Python, with the packages of a folder, on the processor that QEMU calls `cpu`."""
    script = debian.folder / f"{python}-{cpu}"
    places = {"root": debian.root, "packages": packages, "qemu": qemu}
    script.write_text(SCRIPT.format(**places, python=python, cpu=cpu))
    script.chmod(0o755)
    return script


def _archive() -> str:
    """Where this machine has its own packages from."""
    targets = ["apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages", "Label: Debian"]
    return subprocess.run(targets, check=True, stdout=subprocess.PIPE, text=True).stdout.split()[0]
