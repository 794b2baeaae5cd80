"""The page of commands, written from the commands themselves whenever the site is built: a hook of MkDocs.

In: the declarations and help texts of the command line. Out: `cli.md` among the site's pages, in no folder.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from krill.cli.commands import app

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

_OPENING = """# Commands

What `krill COMMAND --help` prints. `kr` is short for `krill`, and `krill --version` prints the version.
"""


def render() -> str:
    """The page as Markdown."""
    text = app.generate_docs(heading_level=1, flatten_commands=True)
    commands = text[text.index("\n# ") + 1 :]  # what is before it is the help of `krill` alone
    summary = re.search(r"^\*\*Commands\*\*:\n\n((?:\* .*\n)+)", text, re.MULTILINE)
    assert summary is not None, "the help of `krill` lists its commands"
    return f"{_OPENING}\n{summary[1]}\n" + re.sub(r"^# (krill .*)$", r"## \1", commands, flags=re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """MkDocs asks for it once it knows the pages."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, "cli.md", content=render()))
    return files
