"""Signatures: simplified text, words, hashes and permutations are datatrove's, for any text."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("datatrove")
xxhash = pytest.importorskip("xxhash")

from datatrove.data import Document  # noqa: E402
from datatrove.pipeline.dedup import MinhashDedupSignature  # noqa: E402
from datatrove.pipeline.dedup.exact_dedup import ExactDedupConfig  # noqa: E402
from datatrove.pipeline.dedup.minhash import MinhashConfig  # noqa: E402
from datatrove.utils.hashing import HashConfig  # noqa: E402
from datatrove.utils.text import TextNormConfig, simplify_text  # noqa: E402
from datatrove.utils.word_tokenizers import WordTokenizer  # noqa: E402
from datatrove_samples import documents_of  # noqa: E402

from krill import _native  # noqa: E402
from krill.corpus.buffers import text_buffers  # noqa: E402
from krill.datatrove import ExactSignatures, MinhashSignatures  # noqa: E402
from krill.datatrove.minhash import lowered, simplification  # noqa: E402
from krill.errors import ConfigError, InputError, StorageError  # noqa: E402
from krill.text.words import split_words  # noqa: E402
from properties import tried  # noqa: E402

# Letters that are written together with spaces between words: of these our splitter is defined elsewhere.
TEXT = st.text(
    st.sampled_from(
        "abcXYZ 019.,'-\n\u00e9\u0301\u0130\u03a3\u03c3\u00df\u060c\u066b\u20ac\u2026\u0661\uac01\u00a0#"
    )
)


class OurWords(WordTokenizer):
    def word_tokenize(self, text: str) -> list[str]:
        return split_words(text)

    def sent_tokenize(self, text: str) -> list[str]:
        return [text]

    def span_tokenize(self, text: str) -> list[tuple[int, int]]:
        return [(0, len(text))]


def signer(config: MinhashConfig) -> tuple[_native.DatatroveSigner, MinhashDedupSignature]:
    theirs = MinhashDedupSignature("memory://signatures", config, language=OurWords())
    factors, addends = (numbers.reshape(-1).copy() for numbers in theirs.parameters)
    return _native.DatatroveSigner(*simplification(), factors, addends, config.n_grams), theirs


@pytest.fixture(scope="module")
def default() -> tuple[_native.DatatroveSigner, MinhashDedupSignature]:
    return signer(MinhashConfig())


def column_of(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    return text_buffers(pa.array([lowered(text) for text in texts], pa.large_string()))


def words_of(ours: _native.DatatroveSigner, text: str) -> str:
    _, joined = ours.words(*column_of([text]))
    return joined.tobytes().decode()


def test_every_character_is_simplified_as_by_datatrove(default) -> None:
    ours, _ = default
    # The planes in which characters are assigned; all others stay as they are.
    for first in (*range(0, 0x34000, 0x2000), 0xE0000):
        characters = [chr(point) for point in range(first, first + 0x2000) if not 0xD800 <= point < 0xE000]
        text = "".join(f"x{character}y " for character in characters)
        assert words_of(ours, text).replace(" ", "") == "".join(simplify_text(text).split()), hex(first)


@tried(300)
@given(TEXT)
def test_words_are_those_of_the_simplified_text(default, text: str) -> None:
    ours, _ = default
    assert words_of(ours, text) == " ".join(split_words(simplify_text(text)))


@tried(100)
@given(st.lists(TEXT, max_size=4), st.integers(1, 3), st.integers(1, 9), st.integers(1, 4), st.integers(0, 9))
def test_numbers_are_datatroves_for_any_config(
    texts: list[str], bands: int, rows: int, ngram: int, seed: int
) -> None:
    ours, theirs = signer(MinhashConfig(n_grams=ngram, num_buckets=bands, hashes_per_bucket=rows, seed=seed))
    numbers, has_shingle = ours.sign(*column_of(texts))
    for text, found, has in zip(texts, numbers, has_shingle, strict=True):
        shingles = theirs.get_shingles(text)
        assert bool(has) == bool(shingles.size)
        expected = np.concatenate(theirs.get_signature(shingles)) if has else np.zeros(bands * rows)
        assert found.tolist() == expected.tolist()


@tried(100)
@given(st.lists(st.binary(max_size=200), max_size=5))
def test_hashes_are_xxh64(data: list[bytes]) -> None:
    offsets = np.concatenate(([0], np.cumsum([len(part) for part in data]))).astype(np.int64)
    found = _native.xxh64_documents(offsets, b"".join(data)).tolist()
    assert found == [xxhash.xxh64_intdigest(part) for part in data]


def test_broken_tables_and_columns_are_refused() -> None:
    points, changes, offsets, replacements = simplification()
    numbers = np.ones(8, np.uint64)

    def make(**other: object) -> object:
        given = {
            "points": points,
            "changes": changes,
            "offsets": offsets,
            "replacements": replacements,
            "factors": numbers,
            "addends": numbers,
            "ngram": 5,
        }
        return _native.DatatroveSigner(**{**given, **other})  # type: ignore[arg-type]

    with pytest.raises(ValueError, match="1 to 100 words"):
        make(ngram=0)
    with pytest.raises(ValueError, match="one addend for each factor"):
        make(addends=numbers[:7].copy())
    with pytest.raises(ValueError, match="one change and one replacement"):
        make(points=points[:-1].copy())
    with pytest.raises(ValueError, match="no code point"):
        make(points=np.full_like(points, 0x110000))
    with pytest.raises(ValueError, match="none that is known"):
        make(changes=np.full_like(changes, 4))
    with pytest.raises(ValueError, match="beyond the end of the data"):
        make(replacements=b"")


def test_bytes_that_are_not_utf8_are_spaces(default) -> None:
    ours, _ = default
    _, joined = ours.words(np.array([0, 5], np.int64), b"a\xffb\xc3d")
    assert joined.tobytes() == b"a b d"


def test_configs_that_the_core_does_not_know_are_refused(tmp_path: Path) -> None:
    for config in (
        MinhashConfig(hash_config=HashConfig(precision=32)),
        MinhashConfig(norm_config=TextNormConfig(norm_weekdays=True)),
    ):
        with pytest.raises(ConfigError, match="can't work with"):
            MinhashSignatures(str(tmp_path), config)


@pytest.mark.parametrize("batch_bytes", [1, "1MB"])
def test_signatures_of_a_task_are_sorted_and_leave_out_short_documents(tmp_path: Path, batch_bytes) -> None:
    texts = ["one two three four five six", "too short", "the same words stand here twice"] * 2
    MinhashSignatures(str(tmp_path), batch_bytes=batch_bytes).run(iter(documents_of(texts)), rank=4)
    record = np.dtype([("hashes", "<u8", 8), ("document", "<u4")])
    files = sorted(tmp_path.glob("bucket_*/00004.minhash.sig"))
    assert len(files) == 14
    for file in files:
        records = np.fromfile(file, record)
        assert sorted(records["document"].tolist()) == [0, 2, 3, 5]
        keys = [(*hashes.tolist(), document) for hashes, document in records]
        assert keys == sorted(keys)
        assert records["hashes"][0].tolist() == records["hashes"][1].tolist()


def test_an_empty_task_writes_empty_files(tmp_path: Path) -> None:
    MinhashSignatures(str(tmp_path)).run(iter([]))
    assert [path.stat().st_size for path in tmp_path.glob("bucket_*/*")] == [0] * 14
    ExactSignatures(str(tmp_path / "exact")).run(iter([]))


def test_a_greek_word_ends_with_its_own_sigma() -> None:
    assert lowered("ΟΔΟΣ") == "οδος"
    assert lowered("Stays As It Is") == "Stays As It Is"
    assert unicodedata.name(lowered("ΑΣ")[-1]) == "GREEK SMALL LETTER FINAL SIGMA"


def test_a_content_or_priority_that_can_not_be_used_is_named(tmp_path: Path) -> None:
    def number(document: Document) -> str:
        return 7  # type: ignore[return-value]

    documents = documents_of(["one", "two"])
    for priority in (0, 65_536):
        config = ExactDedupConfig(
            content_getter=lambda document: document.text,
            document_priority=lambda document, priority=priority: priority,
        )
        with pytest.raises(InputError, match=f"the priority of document `0` is `{priority}`"):
            ExactSignatures(str(tmp_path), config).run(iter(documents))
    with pytest.raises(InputError, match="content_getter returned a `int` for document `0`"):
        ExactSignatures(str(tmp_path), ExactDedupConfig(content_getter=number)).run(iter(documents))
    with pytest.raises(ConfigError, match="`config` of `ExactSignatures` is `4`"):
        ExactSignatures(str(tmp_path), 4)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="`finder_workers` is `0`"):
        ExactSignatures(str(tmp_path), finder_workers=0)


def test_existing_signatures_are_kept_if_asked_and_sorted_again(tmp_path: Path) -> None:
    texts = [
        "one two three four five six",
        "the same words stand here twice",
        "these are six other words here",
    ]
    MinhashSignatures(str(tmp_path)).run(iter(documents_of(texts)))
    files = sorted(tmp_path.rglob("*.minhash.sig"))
    before = {path: path.read_bytes() for path in files}
    for path in files:  # as a run leaves them that was stopped before it sorted
        path.write_bytes(before[path][68:] + before[path][:68])
    never = (pytest.fail("a document was read") for _ in range(1))
    MinhashSignatures(str(tmp_path), skip_existing_sigs=True).run(never)
    assert {path: path.read_bytes() for path in files} == before
    files[3].write_bytes(before[files[3]][:-1])
    MinhashSignatures(str(tmp_path), skip_existing_sigs=True).run(iter(documents_of(texts)))
    assert {path: path.read_bytes() for path in files} == before


def test_signatures_that_a_store_damages_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = MinhashSignatures(str(tmp_path))
    really_open = step.output_folder.open

    def flipping(path: str, mode: str = "rb", **options: object) -> object:
        if mode == "rb":
            file = tmp_path / path
            file.write_bytes(bytes([file.read_bytes()[0] ^ 1]) + file.read_bytes()[1:])
        return really_open(path, mode=mode, **options)

    monkeypatch.setattr(step.output_folder, "open", flipping)
    with pytest.raises(
        StorageError, match=r"the signatures in `bucket_000/00000\.minhash\.sig` are not those"
    ):
        step.run(iter(documents_of(["one two three four five six"])))
