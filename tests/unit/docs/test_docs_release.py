"""A release says one version in three places, and its notes are a section of the changelog."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
from docs_pages import ROOT

import krill

PACKAGE = '__version__ = "0.2.0"\n'
CHANGELOG = "# Changelog\n\n## Unreleased\n\n## 0.2.0 - 2026-01-31\n\n- New.\n\n## 0.1.0\n\n- Old.\n"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "wheels" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_notes_are_the_section_of_the_version() -> None:
    notes = script("release_notes").release_notes
    assert notes("v0.2.0", PACKAGE, CHANGELOG) == "- New."
    assert notes("v0.1.0", PACKAGE.replace("0.2", "0.1"), CHANGELOG) == "- Old."


@pytest.mark.parametrize(
    ("tag", "changelog", "refusal"),
    [
        ("v0.3.0", CHANGELOG, "the tag is `v0.3.0`, the package's version `0.2.0`"),
        ("0.2.0", CHANGELOG, "the tag is `0.2.0`, the package's version `0.2.0`"),
        ("v0.2.0", "# Changelog\n\n## 0.2.00\n\n- No.\n", "CHANGELOG.md has nothing under `## 0.2.0`"),
        ("v0.2.0", "# Changelog\n\n## 0.2.0\n\n## 0.1.0\n", "CHANGELOG.md has nothing under `## 0.2.0`"),
    ],
)
def test_a_tag_that_is_not_the_version_is_refused(tag: str, changelog: str, refusal: str) -> None:
    with pytest.raises(SystemExit, match=re.escape(refusal)):
        script("release_notes").release_notes(tag, PACKAGE, changelog)


def test_the_version_stands_in_one_place() -> None:
    assert f'__version__ = "{krill.__version__}"' in Path(krill.__file__).read_text(encoding="utf-8")
    for name in ("pyproject.toml", "CITATION.cff", "CMakeLists.txt"):
        assert not re.search(r"^version\b", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE), name


def test_the_lock_file_names_no_registry_and_leaves_a_gpu_alone() -> None:
    locked = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8")
    assert not re.search(r"://|^-|@", locked, re.MULTILINE)
    assert not re.search(
        r"^(torch|triton|nvidia-|cuda-)[^=]*==", locked.replace("torchdata", ""), re.MULTILINE
    )


def test_a_wheel_is_held_to_its_own_name() -> None:
    is_at_most = script("build").is_at_most
    assert is_at_most("manylinux_2_24_aarch64", "manylinux_2_28_aarch64")
    assert is_at_most("manylinux_2_28_x86_64", "manylinux_2_28_x86_64")
    assert not is_at_most("manylinux_2_34_x86_64", "manylinux_2_28_x86_64")
    assert not is_at_most("manylinux_2_28_x86_64", "manylinux_2_28_aarch64")
    assert not is_at_most("linux_x86_64", "manylinux_2_28_x86_64")
