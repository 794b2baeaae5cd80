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

import krill
import preloaded
from web_site import write_crawl

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
        whole = self.content.replace("\\\n", " ")
        lines = (line.split("  #")[0].strip() for line in whole.splitlines())
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


def _documents(folder: Path, count: int = 200) -> None:
    """400 documents in two files, a tenth of them copies; or as many in each as `count` says."""
    data = folder / "data"
    data.mkdir()
    for name in ("a", "b"):
        with (data / f"{name}.jsonl").open("w", encoding="utf-8") as file:
            for number in range(count):
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


def _chats(folder: Path) -> None:
    """Documents for a tokenizer, and 300 short conversations."""
    _documents(folder)
    chance = random.Random(3)
    with (folder / "data" / "chats.json").open("w", encoding="utf-8") as file:
        rows = []
        for number in range(300):
            asked = f"What do you know of krill, number {number}? {_page(chance)[:80]}"
            answer = f"Krill swims in the sea, and whales eat it. {_page(chance)[:120]}"
            rows.append(
                {"messages": [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]}
            )
        json.dump(rows, file)


def _dataset(folder: Path) -> None:
    """A dataset that was prepared from the documents, in rows of 256 tokens."""
    _documents(folder)
    preprocess = {"prepared_path": str(folder / "artifacts/dataset"), "sequence_len": 256}
    source = {"path": str(folder / "data/*.jsonl")}
    config = {"datasets": [source], "tokenizer": {"builtin": "bytes"}, "preprocess": preprocess}
    krill.preprocess(config, memory="256MB")


def _model(folder: Path) -> None:
    """Some of the documents, and a small model of bytes with one checkpoint, as a training leaves it."""
    _documents(folder, 20)
    # In a process of its own: JAX has threads, and this one forks.
    done = preloaded.run([], script=_MAKE_MODEL, cwd=folder)
    assert done.code == 0, done.err


_MAKE_MODEL = """
from pathlib import Path
import jax.numpy as jnp
from krill.model.sizing import ModelShape
from krill.training.checkpoints import CheckpointStore
from krill.training.precision import Precision, first_scale
from krill.training.saved_model import save_model
from krill.training.step import TrainState
from tiny_models import tiny_model

model = tiny_model(ModelShape(257, 32, 2, 2, 2, 64), 1)
save_model(Path("artifacts/model"), model, context=64, tokenizer="bytes")
state = TrainState(model, (), first_scale(Precision.FLOAT32), jnp.asarray(1))
CheckpointStore(Path("artifacts/model/checkpoints"), keep=1, note=print).save(
    1, state, {"plan": {"length": 64}}, metric=1.0
)
"""

_NOUNS = """
anchor bay boat bottle bridge cabin captain chart coast compass crew current deck depth diver dock
engine fish flag fleet fog gull harbour horizon hull ice island journal kelp lamp letter lighthouse
map mast morning net night north oar ocean pilot planet port reef rope rudder sail salt sea seal
shadow shell shore signal sky snow south star storm stranger summer swarm tide tower village voyage
water wave whale wind winter wreck year
"""
_VERBS = """
carried crossed described drew entered feared followed found forgot guarded heard hid kept left lost
measured met missed named needed noticed painted passed reached remembered saw sold taught told
touched turned visited wanted watched wrote
"""
_LINKS = (
    "and",
    "but the",
    "with",
    "of the",
    "that",
    "because the",
    "near the",
    "while a",
    "to the",
    "before the",
)


def _page(chance: random.Random) -> str:
    """Fifteen sentences of something like English, no two alike."""
    nouns, verbs = _NOUNS.split(), _VERBS.split()
    lines = []
    for _ in range(15):
        parts = ["The", chance.choice(nouns)]
        for _ in range(3):
            parts += [
                chance.choice(verbs),
                "the",
                chance.choice(nouns),
                chance.choice(_LINKS),
                chance.choice(nouns),
            ]
        lines.append(" ".join([*parts, "have", chance.choice(verbs)]) + ".")
    return "\n".join(" ".join(lines[at : at + 3]) for at in range(0, 15, 3))


DATA: dict[str, Callable[[Path], None]] = {
    "chats": _chats,
    "crawl": write_crawl,
    "dataset": _dataset,
    "documents": _documents,
    "model": _model,
    "web": _web,
}
