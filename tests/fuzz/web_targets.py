"""Crawls and pages, read and extracted as `krill preprocess` does."""

from __future__ import annotations

import gzip
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

import numpy as np
import zstandard

from fuzzing import Target
from krill.config import DatasetConfig
from krill.corpus import DatasetSource, UnitEnd, open_corpus
from krill.corpus.arrays import as_numpy
from krill.corpus.readers import Limits
from krill.pipeline.web_input import page_settings
from krill.text.extract import ExtractPages
from mutations import mutate_bytes
from web_crawl import (
    compressed,
    page_of,
    response_record,
    simple_answers,
    skippable_frame,
    tarred,
    warc_info,
    warc_record,
    zipped,
)

COLUMNS = ("url", "date", "id", "content_type", "title")


def check_pages(case: Path, random: Random) -> None:
    """All pages become valid text, positions never fall, and a walk goes on where it stopped."""
    limits = Limits(random.choice([1 << 10, 1 << 14, 32_000_000]), random.choice([300, 100_000]))
    source = DatasetSource(str(case), columns=COLUMNS, max_page_bytes=random.choice([1000, 10**7]))
    corpus = open_corpus(
        [source],
        unit_bytes=limits.unit_bytes,
        max_document_bytes=limits.max_document_bytes,
        skip_malformed=random.random() < 0.7,
        pages=True,
    )
    strip = random.choice(["strip", "drop"])
    settings = page_settings(DatasetConfig(path=str(case), columns=COLUMNS, extract={"oversize_page": strip}))
    step = ExtractPages([settings], corpus.files, limits)
    last, committed, units = -1, {}, []
    for unit, blocks in corpus.walk(lambda _: None):
        units.append(unit.position)
        for block in blocks:
            documents = step.apply(block.documents())
            documents.batch.validate(full=True)
            positions = as_numpy(documents.batch.column("position"), "uint64").astype(np.int64)
            assert not len(positions) or (positions[0] >= last and (np.diff(positions) >= 0).all())
            last = int(positions[-1]) if len(positions) else last
            committed[unit.position] = UnitEnd.after(block)
    done = units[: random.randrange(len(units) + 1)] if units else []
    rest = [unit.position for unit, _ in corpus.walk({at: committed[at] for at in done}.get)]
    assert rest == units[len(done) :]


def _records() -> list[bytes]:
    responses = [response_record(answer, number) for number, answer in enumerate(simple_answers(6))]
    text = warc_record("conversion", b"some plain text", url="http://a/9", content_type="text/plain")
    return [warc_info(), *responses[:3], text, *responses[3:]]


def _write(folder: Path) -> Mapping[str, Sequence[str]]:
    contents = {f"a.warc{ending}": compressed(_records(), ending) for ending in ("", ".gz", ".zst")}
    contents["one-member.warc.gz"] = gzip.compress(b"".join(_records()), mtime=0)
    dictionary = zstandard.train_dictionary(3000, _records() * 20)
    frames = [zstandard.ZstdCompressor(dict_data=dictionary).compress(record) for record in _records()]
    contents["b.warc.zst"] = skippable_frame(dictionary.as_bytes(), 13) + b"".join(frames)
    members = {f"site/{n}.html": answer.body for n, answer in enumerate(simple_answers(4))}
    others = {"a.css": b"p {}", "b.html.gz": gzip.compress(b"<p>text", mtime=0), "../c.html": b"<p>out"}
    contents["a.zip"] = zipped({**members, **others})
    for name, format in {"gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}.items():
        packed = tarred({**members, "long/" * 40 + "a.html": b"<p>text", **others}, format)
        contents[f"{name}.tar"] = packed
        contents[f"{name}.tar.gz"] = gzip.compress(packed, mtime=0)
    contents["a.html"] = page_of("<h1>A title</h1><p>some text<table><td>a<td>b</table>").encode()
    for name, content in contents.items():
        (folder / name.replace(".", "-")).mkdir()
        (folder / name.replace(".", "-") / name).write_bytes(content)
    return {name.replace(".", "-"): [name] for name in contents}


def _mutate(data: bytes, random: Random, others: Sequence[bytes]) -> bytes:
    """At times what a gzip file holds is damaged, and compressed again."""
    if random.random() < 0.5 and data.startswith(b"\x1f\x8b"):
        return gzip.compress(mutate_bytes(gzip.decompress(data), random), mtime=0)
    return mutate_bytes(data, random, others)


WEB_TARGETS = [Target("web", _write, check_pages, _mutate)]
