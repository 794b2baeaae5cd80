"""The documentation as blocks that can be checked and run.

A page is a session: its blocks run in order, in one empty folder. Comments directly before a fenced block
say how:

    <!-- data: NAME -->       put this data into the folder first (`DATA` below)
    <!-- file: PATH -->       save the block as this file, as the page tells its reader to
    <!-- exit: CODE -->       the block's last command ends with this exit code; 0 if not given
    <!-- refused: TEXT -->    the block is a config that is refused, and the error says this
    <!-- skip: WHY -->        don't run the block
    <!-- older -->, <!-- newer -->    two configs that mean the same, one after the other
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [ROOT / "README.md", *DOCS]
ALL_PAGES = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]

_BLOCK = re.compile(
    r"(?P<notes>(?:^<!--[^\n]*-->\n+)*)^```(?P<language>\w+)\n(?P<content>.*?)^```$", re.DOTALL | re.MULTILINE
)
_NOTE = re.compile(r"<!-- (\w+)(?:: (.*?))? -->")
_ROW = re.compile(r"^\|(.*)\|$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    page: str
    line: int
    language: str
    content: str
    notes: dict[str, str]

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def commands(self) -> list[str]:
        """The lines that call Krill, without their comments."""
        lines = (line.split("  #")[0].strip() for line in self.content.splitlines())
        return [line for line in lines if re.match(r"(/usr/bin/time -v )?(krill|kr) ", line)]


def blocks_of(page: Path) -> list[Block]:
    """All fenced blocks, with the comments before them."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            page.name,
            text.count("\n", 0, match.start("language")) + 1,
            match["language"],
            match["content"],
            dict(_NOTE.findall(match["notes"])),
        )
        for match in _BLOCK.finditer(text)
    ]


def table_rows(page: Path, heading: str) -> Iterator[list[str]]:
    """The rows, without the two of the head, of every table below a heading and above the next one."""
    text = page.read_text(encoding="utf-8")
    section = re.split(r"^#+ ", text.split(f"# {heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    for table in re.findall(r"(?:^\|.*\|\n)+", section, re.MULTILINE):
        for row in _ROW.findall(table)[2:]:
            yield [cell.strip() for cell in re.split(r"(?<!\\)\|", row)]


def quoted(cell: str) -> list[str]:
    """What stands in backticks."""
    return re.findall(r"`([^`]*)`", cell)


def _documents(folder: Path) -> None:
    """400 documents in two files, a tenth of them copies."""
    data = folder / "data"
    data.mkdir()
    for name in ("a", "b"):
        with (data / f"{name}.jsonl").open("w", encoding="utf-8") as file:
            for number in range(200):
                text = f"Document {number % 180} of file {name} speaks of krill, whales and the sea. " * 12
                file.write(json.dumps({"id": number, "text": text}) + "\n")


def _web(folder: Path) -> None:
    """Pages as a crawl gives them: prose, copies and near-copies of it, menus, another language."""
    crawl = folder / "crawl"
    crawl.mkdir()
    chance = random.Random(7)
    pages = [_page(chance) for _ in range(250)]
    pages += [page.replace("ocean", "sea", 1) for page in pages[:30]] + pages[30:40]
    pages += ["Home | About | Contact\n" * 40] * 5
    pages += ["Der Krill lebt im Meer und wird von Walen gefressen, die weit durch das Eis ziehen. " * 9] * 5
    with (crawl / "pages.jsonl").open("w", encoding="utf-8") as file:
        for number, page in enumerate(pages):
            file.write(json.dumps({"url": f"https://example.org/{number}", "text": page}) + "\n")


def _page(chance: random.Random) -> str:
    """Fifteen sentences of English, no two alike."""
    who = ["the whale", "a diver", "the captain", "every penguin", "the old ship", "a swarm of krill"]
    does = ["followed", "found", "feared", "remembered", "described", "watched", "measured", "crossed"]
    what = ["the ocean", "a field of ice", "the southern light", "its own shadow", "that quiet harbour"]
    when = ["before the storm", "in the early morning", "with great care", "after many years", "at night"]
    why = ["to be alone", "and the crew agreed", "because of the cold", "for reasons that have been lost"]
    lines = []
    for _ in range(15):
        name = "".join(chance.choices("bdfklmnprst", k=2)) + "a" + "".join(chance.choices("lmnrst", k=2))
        parts = [chance.choice(words) for words in (who, does, what, when, why)]
        lines.append(f"{parts[0]} of {name.title()} {' '.join(parts[1:])}.".capitalize())
    return "\n".join(" ".join(lines[at : at + 3]) for at in range(0, 15, 3))


DATA: dict[str, Callable[[Path], None]] = {"documents": _documents, "web": _web}
