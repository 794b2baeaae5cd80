"""Published tokenizers are native, and give the library's ids, offsets and text on real documents."""

from __future__ import annotations

import lzma
from itertools import islice
from pathlib import Path

import pytest
from tokenizers import Tokenizer as Library

import krill.tokenizer
from real_text import SHARED_DATA, installed_texts, real_texts
from tokenizer_texts import CODE, EDGES, LANGUAGES, LONG, assert_same, both, noise, with_added

FILES = sorted((SHARED_DATA / "tokenizers").glob("*.tokenizer.json.xz"))
DOCUMENTS = 6000
BATCH = 200


@pytest.fixture(params=FILES, ids=lambda file: file.name.partition(".")[0])
def pair(request, tmp_path: Path) -> tuple[Library, krill.tokenizer.Tokenizer]:
    file = tmp_path / "tokenizer.json"
    file.write_bytes(lzma.decompress(request.param.read_bytes()))
    return both(file)


def test_a_published_tokenizer_gives_what_the_library_gives(pair) -> None:
    library, ours = pair
    assert_same(library, ours, [*LANGUAGES, CODE, *EDGES, *LONG, *with_added(library), *noise(100)])
    assert_same(library, ours, [text[:3000] for text in islice(real_texts(), 0, DOCUMENTS, DOCUMENTS // 150)])


@pytest.mark.soak
def test_a_published_tokenizer_gives_what_the_library_gives_on_all_documents(pair) -> None:
    texts = [*islice(real_texts(), DOCUMENTS), *islice(installed_texts(), 200), *noise(1000)]
    for start in range(0, len(texts), BATCH):
        assert_same(*pair, texts[start : start + BATCH])
