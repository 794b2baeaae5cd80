"""The site's page of commands has every command, and each of its options with a meaning."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from krill.cli.commands import app

SCRIPT = Path(__file__).resolve().parents[3] / "docs" / "cli_page.py"


def page() -> str:
    spec = importlib.util.spec_from_file_location("cli_page", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return str(module.render())


def test_the_page_has_every_command_and_every_option_with_its_meaning() -> None:
    text = page()
    headings = re.findall(r"^## krill (.*)$", text, re.MULTILINE)
    commands = [name for name in app if not name.startswith("-")]
    nested = [
        f"{name} {verb}" for name in ("tokenizer", "qa") for verb in app[name] if not verb.startswith("-")
    ]
    assert sorted(headings) == sorted({*commands, *nested} - _aliases(commands))
    assert re.findall(r"^# .*$", text, re.MULTILINE) == ["# Commands"]
    options = re.findall(r"^\* `(--[^`]*)`(.*)$", text, re.MULTILINE)
    assert len(options) > 100
    assert not [option for option, meaning in options if not re.match(r": \S", meaning)]
    assert "* `--memory STR`: The memory budget" in text


def test_links_on_the_page_lead_to_its_headings() -> None:
    text = page()
    anchors = {heading.replace(" ", "-") for heading in re.findall(r"^## (.*)$", text, re.MULTILINE)}
    linked = set(re.findall(r"\]\(#([^)]*)\)", text))
    assert linked
    assert linked <= anchors


def _aliases(commands: list[str]) -> set[str]:
    """Other names of a command: `inspect-dataset` is `inspect`."""
    return {name for name in commands if name != app[name].name[0]}
