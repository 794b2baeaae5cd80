"""Published tokenizers are native, and give the library's ids, offsets and text on real documents.

`KRILL_TOKENIZERS=FOLDER` adds every `tokenizer.json` below a folder to them.
"""

from __future__ import annotations

import json
import lzma
import os
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as Library

import krill.tokenizer
from real_text import SHARED_DATA, installed_texts, real_texts
from tokenizer_texts import CODE, EDGES, LANGUAGES, LONG, assert_same, both, noise, with_added

FILES = sorted((SHARED_DATA / "tokenizers").glob("*.tokenizer.json.xz"))
if "KRILL_TOKENIZERS" in os.environ:
    FILES += sorted(Path(os.environ["KRILL_TOKENIZERS"]).resolve().rglob("tokenizer.json"))
DOCUMENTS = 6000
BATCH = 200
LARGE_FROM = 200_000  # tokens
Run = Callable[..., Any]


def name(file: Path) -> str:
    return file.parent.name if file.name == "tokenizer.json" else file.name.partition(".")[0]


@pytest.fixture(params=FILES, ids=name)
def published(request, tmp_path: Path) -> Path:
    if request.param.suffix != ".xz":
        return request.param
    file = tmp_path / "tokenizer.json"
    file.write_bytes(lzma.decompress(request.param.read_bytes()))
    return file


@pytest.fixture
def pair(published: Path) -> tuple[Library, krill.tokenizer.Tokenizer]:
    return both(published)


def test_a_published_tokenizer_gives_what_the_library_gives(pair) -> None:
    library, ours = pair
    assert_same(library, ours, [*LANGUAGES, CODE, *EDGES, *LONG, *with_added(library), *noise(100)])
    assert_same(library, ours, [text[:3000] for text in islice(real_texts(), 0, DOCUMENTS, DOCUMENTS // 150)])


@pytest.mark.soak
def test_a_published_tokenizer_gives_what_the_library_gives_on_all_documents(pair) -> None:
    texts = [*islice(real_texts(), DOCUMENTS), *islice(installed_texts(), 200), *noise(1000)]
    for start in range(0, len(texts), BATCH):
        assert_same(*pair, texts[start : start + BATCH])


@pytest.mark.soak
def test_a_published_tokenizer_prepares_a_dataset_in_a_small_budget(
    published: Path, tmp_path: Path, fresh_krill: Run
) -> None:
    text = tmp_path / "text.jsonl"
    text.write_text("".join(json.dumps({"text": text}) + "\n" for text in islice(real_texts(), DOCUMENTS)))
    megabytes = 300 if len(json.loads(published.read_bytes())["model"]["vocab"]) > LARGE_FROM else 256
    config = tmp_path / "config.yaml"
    config.write_text(
        f"datasets: [{{path: {text}}}]\ntokenizer: {{path: {published}}}\n"
        f"preprocess: {{prepared_path: {tmp_path / 'out'}}}\n"
    )
    ran = fresh_krill("preprocess", config, "--memory", f"{megabytes}MB", "--quiet")
    assert ran.code == 0, ran.err
    made = json.loads((tmp_path / "out" / "krill-run.json").read_bytes())
    assert made["tokenizer"]["encoder"] == "native"
    assert ran.peak <= megabytes * 10**6
