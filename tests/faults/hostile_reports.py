"""Hostile runs for `krill report`, and places for the pages that it and `tokenizer compare` write."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hostile import FAULTS, Case
from hostile_outputs import _damages, _say, _whole, _write
from hostile_tokenizer_files import plain, put

ANY = FAULTS | {0}
OBEYED = "\x1b]0;x\x07\x9b31m\u202e[/red]<script>alert(1)</script>"
Make = Callable[[Path], object]


def cases() -> Iterator[Case]:
    yield from _damaged()
    yield from _figures()
    yield from _unfinished()
    yield from _places()
    yield from _tokenizers()
    yield from _several()


def report(name: str, make: Make, *said: str, codes: frozenset[int] = ANY, **more: Any) -> Case:
    """A report in `report.html`, in which nothing may stand that a browser would run or load."""

    def made(folder: Path) -> None:
        make(folder)

    arguments = ["report", *(said or ("out",)), "--output", "report.html", "--memory", "300MB"]
    return Case(f"report-{name}", made, arguments, codes, memory=300_000_000, seconds=60, **more)


def _output(damage: Callable[[Path], object]) -> Make:
    def make(folder: Path) -> None:
        shutil.copytree(_whole(), folder / "out", symlinks=True)
        damage(folder / "out")

    return make


def _damaged() -> Iterator[Case]:
    for name, (damage, _) in _damages().items():
        yield report(f"damaged-{name}", _output(damage))


def _figures() -> Iterator[Case]:
    """Figures of a manifest that a page draws."""
    values: dict[str, Any] = {
        "text": OBEYED,
        "null": None,
        "list": [[]],
        "object": {"a": {}},
        "negative": -(2**63),
        "huge": 2**64 - 1,
        "fraction": 1e308,
        "tiny": 5e-324,
        "many": list(range(20_000)),
        "true": True,
        "long": "a" * 3_000_000,
    }
    places: tuple[tuple[str | int, ...], ...] = (
        ("documents",),
        ("documents", "read"),
        ("documents", "dropped"),
        ("tokens",),
        ("budget",),
        ("budget", "memory"),
        ("budget", "measured_peak"),
        ("budget", "shares"),
        ("stages",),
        ("stages", 0),
        ("timeline",),
        ("timeline", "seconds"),
        ("timeline", "memory"),
        ("seconds",),
        ("config",),
        ("dataset", "rows"),
        ("dataset", "lengths"),
        ("distributions",),
        ("command",),
        ("krill",),
        ("tokenizer",),
        ("inputs",),
        ("format",),
        ("text",),
        ("rejected",),
        ("sources",),
        ("notes",),
    )
    for at, keys in enumerate(places):
        for number, (name, value) in enumerate(values.items()):
            if (at + number) % 3:  # each place meets some of them
                continue
            where = "-".join(map(str, keys))
            yield report(f"figure-{where}-{name}", _output(_said(keys, value)))
    shuffled = {f"reason {at} {OBEYED}": at for at in range(5000)}
    yield report("figure-thousands-of-reasons", _output(_said(("documents", "dropped"), shuffled)))
    series = {"seconds": [1e300, -1.0, 0.0] * 3000, "memory": [0, 2**63, -5] * 3000}
    yield report("figure-a-timeline-that-jumps", _output(_said(("timeline",), series)))


def _said(keys: tuple[str | int, ...], value: Any) -> Callable[[Path], object]:
    def damage(out: Path) -> None:
        try:
            _say(keys, value)(out)
        except (KeyError, IndexError, TypeError):  # a manifest need not have it
            _say(keys[:1], {str(keys[-1]): value})(out)

    return damage


def _unfinished() -> Iterator[Case]:
    """What a run that has not ended left."""

    def begun(text: object, *more: tuple[str, Make]) -> Make:
        def make(folder: Path) -> None:
            work = folder / ".out.krill"
            work.mkdir()
            content = text if isinstance(text, bytes) else json.dumps(text).encode()
            (work / "run.json").write_bytes(content)
            for name, write in more:
                (work / name).parent.mkdir(parents=True, exist_ok=True)
                write(work / name)

        return make

    config = {"preprocess": {"prepared_path": "out"}}
    kinds: dict[str, Make] = {
        "empty": begun({}),
        "noise": begun(b"\0{"),
        "a-list": begun([]),
        "deep": begun(b'{"a":' * 100_000),
        "of-texts": begun({"config": OBEYED, "input": OBEYED, "krill": OBEYED, "command": OBEYED}),
        "spilled-to-a-number": begun({"config": config, "spill_dir": 5}),
        "spilled-to-the-root": begun({"config": config, "spill_dir": "/"}),
        "with-a-timeline-of-noise": begun(
            {"config": config}, ("timeline.json", lambda p: p.write_bytes(b"\xff{"))
        ),
        "with-a-timeline-of-zeros": begun(
            {"config": config}, ("timeline.json", lambda p: p.symlink_to("/dev/zero"))
        ),
        "with-a-timeline-fifo": begun({"config": config}, ("timeline.json", os.mkfifo)),
        "with-a-stage-that-loops": begun(
            {"config": config}, ("stages/read", lambda p: p.symlink_to("../stages"))
        ),
        "with-a-stage-of-escapes": begun(
            {"config": config},
            (f"stages/{OBEYED.replace('/', '')}/00000000.json", lambda p: p.write_text("{}")),
        ),
        "with-20000-units": begun(
            {"config": config},
            (
                "stages/read/a",
                lambda p: [(p.parent / f"{at:08}.json").write_text("{}") for at in range(20_000)],
            ),
        ),
        "of-a-sparse-gigabyte": lambda folder: [
            begun({})(folder),
            os.truncate(folder / ".out.krill/run.json", 10**9),
        ],
        "a-fifo": lambda folder: [(folder / ".out.krill").mkdir(), os.mkfifo(folder / ".out.krill/run.json")],
        "a-file": lambda folder: (folder / ".out.krill").write_text("mine"),
        "a-loop": lambda folder: (folder / ".out.krill").symlink_to(".out.krill"),
        "of-a-training": lambda folder: [
            (folder / "out").mkdir(),
            (folder / "out/.krill-begun.json").write_text(OBEYED),
        ],
        "of-a-training-of-noise": lambda folder: [
            (folder / "out").mkdir(),
            (folder / "out/.krill-begun.json").write_text("{}"),
            (folder / "out/metrics.jsonl").write_bytes(b'{"loss": "\x1b"}\n[' * 9000),
        ],
    }
    for name, make in kinds.items():
        yield report(f"unfinished-{name}", make)


def _places() -> Iterator[Case]:
    """Where the page shall be."""
    whole = _output(lambda out: None)

    def beside(write: Callable[[Path], object]) -> Make:
        def make(folder: Path) -> None:
            whole(folder)
            write(folder / "report.html")

        return make

    kinds: dict[str, Make] = {
        "somebodys-page": beside(lambda page: page.write_text("<html>mine</html>")),
        "an-empty-file": beside(Path.touch),
        "a-folder": beside(Path.mkdir),
        "a-fifo": beside(os.mkfifo),
        "a-link-to-a-file": beside(lambda page: page.symlink_to("beside/precious.txt")),
        "a-link-to-nothing": beside(lambda page: page.symlink_to("beside/made.html")),
        "a-link-to-a-device": beside(lambda page: page.symlink_to("/dev/null")),
        "a-link-to-itself": beside(lambda page: page.symlink_to("report.html")),
        "a-sparse-terabyte": beside(lambda page: (page.touch(), os.truncate(page, 10**12))),
    }
    for name, make in kinds.items():
        yield report(f"page-{name}", make, codes=frozenset({2, 3, 5}))
    names = {
        "in-the-output": "out/report.html",
        "the-manifest": "out/krill-run.json",
        "a-device": "/dev/full",
        "nowhere": "absent/report.html",
        "below-a-file": "NOTES.md/report.html",
        "empty": "",
        "here": ".",
        "long": "a" * 300,
        "longer": "a/" * 3000 + "b",
        "of-escapes": OBEYED.replace("/", "") + ".html",
        "not-utf8": os.fsdecode(b"\xff\xfe.html"),
        "proc": "/proc/self/report.html",
    }
    for name, path in names.items():
        given = ["report", "out", "--output", path, "--memory", "300MB"]
        yield Case(f"report-named-{name}", whole, given, ANY, memory=300_000_000)
        if len(name) % 2:
            given = [
                "tokenizer",
                "compare",
                "--input",
                "NOTES.md",
                "--peers",
                "tokenizers",
                "--vocab-size",
                "300",
            ]
            given += ["--output", path, "--memory", "300MB"]
            yield Case(f"compare-page-named-{name}", lambda folder: None, given, ANY, memory=300_000_000)


def _tokenizers() -> Iterator[Case]:
    grown = {"type": "Replace", "pattern": {"String": "s"}, "content": "ss"}
    kinds: dict[str, Any] = {
        "empty": b"",
        "deep": b"[" * 100_000,
        "plain": plain(),
        "noise": b"\xff\xfe",
        "growing": plain(normalizer={"type": "Sequence", "normalizers": [grown] * 30}),
        "backtracking": plain(
            pre_tokenizer={
                "type": "Split",
                "pattern": {"Regex": "(?:(a|a)+)+$"},
                "behavior": "Isolated",
                "invert": False,
            }
        ),
        "vanishing": plain(normalizer={"type": "Replace", "pattern": {"Regex": "[^\\u0000]"}, "content": ""}),
        "of-escapes": plain(
            model={"type": "WordLevel", "vocab": {OBEYED: 0, "[UNK]": 1}, "unk_token": "[UNK]"}
        ),
        "a-fifo": os.mkfifo,
        "a-device": lambda path: path.symlink_to("/dev/zero"),
    }
    for name, content in kinds.items():

        def make(folder: Path, content: Any = content) -> None:
            (folder / "out").mkdir()
            put(folder / "out" / "tokenizer.json", content)

        yield report(f"tokenizer-{name}", make)
        yield report(f"tokenizer-{name}-file", make, "out/tokenizer.json")


def _several() -> Iterator[Case]:
    """Several runs, or what are none."""

    def two(folder: Path) -> None:
        shutil.copytree(_whole(), folder / "out", symlinks=True)
        shutil.copytree(_whole(), folder / OBEYED.replace("/", ""), symlinks=True)

    escaped = OBEYED.replace("/", "")
    yield report("of-two", two, "out", escaped)
    yield report("of-one-twice", two, "out", "out")
    yield report("of-one-by-two-names", two, "out", "./out")
    yield report("of-seven", two, *(f"out{at}" for at in range(7)))
    for name, path in {
        "a-device": "/dev/zero",
        "proc": "/proc/self",
        "the-root": "/",
        "empty": "",
        "a-file": "NOTES.md",
        "a-url": "http://127.0.0.1:1/out",
        "a-bucket": "s3://",
        "memory": "memory://out",
        "dots": "..",
        "absent": OBEYED,
        "long": "a" * 5000,
        "a-nul": "out.yaml/..",
    }.items():
        yield report(f"of-{name}", two, path, codes=FAULTS)
    yield report("of-a-config-of-noise", lambda f: _write("c.yaml", b"\xff{")(f), "c.yaml", codes=FAULTS)
    yield report("of-a-config-fifo", lambda f: os.mkfifo(f / "c.yaml"), "c.yaml", codes=FAULTS)
