"""The notes of a release, from CHANGELOG.md; refuses where tag, package and changelog do not say one version.

python wheels/release_notes.py v0.2.0
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def release_notes(tag: str, package: str, changelog: str) -> str:
    """The section of the version that `tag` names; `package` is the text of `src/krill/__init__.py`."""
    version = re.search(r'^__version__ = "(.*)"$', package, re.MULTILINE)
    if version is None or tag != f"v{version[1]}":
        sys.exit(f"the tag is `{tag}`, the package's version `{version and version[1]}`")
    section = re.search(
        rf"^## {re.escape(version[1])}\b.*?\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL
    )
    if section is None or not section[1].strip():
        sys.exit(f"CHANGELOG.md has nothing under `## {version[1]}`")
    return section[1].strip()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    package = (ROOT / "src/krill/__init__.py").read_text(encoding="utf-8")
    print(release_notes(sys.argv[1], package, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")))
