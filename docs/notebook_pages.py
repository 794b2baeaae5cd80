"""The notebooks as pages, written from them whenever the site is built: a hook of MkDocs.

In: `notebooks/*.ipynb`, which have no outputs. Out: a page for each among the site's pages, in no folder; the
notebook itself lies beside it, to be opened in Jupyter.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

NOTEBOOKS = sorted((Path(__file__).parent / "notebooks").glob("*.ipynb"))


def cells_of(notebook: Path) -> list[tuple[str, str]]:
    """The kind and the text of each cell."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return [(cell["cell_type"], "".join(cell["source"])) for cell in cells]


def render(notebook: Path) -> str:
    """The page as Markdown."""
    (_, opening), *cells = cells_of(notebook)
    parts = [
        opening,
        f"[Open it in Jupyter]({notebook.name}): this page is the notebook, without its outputs.",
    ]
    for kind, text in cells:
        if kind == "markdown":
            # On the site, notebooks link to pages.
            parts.append(re.sub(r"\]\(([\w-]+)\.ipynb\)", r"](\1.md)", text))
        else:
            parts.append(f"```python\n{text}\n```")
    return "\n\n".join(parts) + "\n"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """MkDocs asks for it once it knows the pages."""
    from mkdocs.structure.files import File

    for notebook in NOTEBOOKS:
        files.append(File.generated(config, f"notebooks/{notebook.stem}.md", content=render(notebook)))
    return files
