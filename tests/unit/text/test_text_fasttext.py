"""fastText models: scores as the reference has them, decisions by thresholds, and files that are refused."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

import krill
from fasttext_files import ModelFile
from krill.config import load_config
from krill.config.filters import FastText, Language
from krill.corpus.buffers import text_buffers
from krill.corpus.documents import Documents
from krill.corpus.long_records import NO_LONG_RECORDS
from krill.errors import ConfigError, InputError
from krill.text.build import fingerprints_of
from krill.text.fasttext import (
    FastTextFilter,
    FastTextLanguages,
    FastTextModel,
    fasttext_needs,
    model_bytes,
)
from krill.text.language import DROPPED_IN, LanguageFilter
from oracles.fasttext import reference_scores
from properties import tried

TEXTS = ["krill", "whale whale", "krill größe", "nothing known"]


def documents_of(texts: list[str]) -> Documents:
    columns = [pa.array(texts, pa.large_string()), pa.array(range(len(texts)), pa.uint64())]
    return Documents(pa.RecordBatch.from_arrays(columns, ["text", "position"]), {"too_short": 3})


def saved(folder: Path, file: ModelFile, name: str = "model.bin") -> str:
    path = folder / name
    path.write_bytes(file.bytes())
    return str(path)


def scores_of(path: str, texts: list[str], newline: str = " ") -> list[list[float]]:
    model = FastTextModel.load(path)
    numbers = np.arange(len(model.labels), dtype=np.int32)
    columns = text_buffers(pa.array(texts, pa.large_string()))
    scores, best, best_scores = model.native.score(*columns, numbers, newline == "")
    rows = scores.reshape(len(texts), -1)
    assert best_scores.tolist() == rows.max(axis=1).tolist()
    assert best.tolist() == [int(row.argmax()) if row.any() else -1 for row in rows]
    return rows.tolist()


@pytest.mark.parametrize("loss", ["softmax", "ova", "ns", "hs"])
@tried(25)
@given(
    texts=st.lists(
        st.lists(st.sampled_from(["krill", "größe", "日本", "x", "</s>", "__label__hq", "__label__no"])).map(
            lambda words: " \n".join(words)
        ),
        min_size=1,
        max_size=4,
    ),
    settings=st.fixed_dictionaries(
        {
            "word_ngrams": st.integers(1, 3),
            "minn": st.integers(0, 2),
            "maxn": st.integers(0, 4),
            "dim": st.sampled_from([1, 5, 6]),
            "version": st.sampled_from([11, 12]),
            "quantised": st.booleans(),
            "norms": st.booleans(),
        }
    ),
    newline=st.sampled_from([" ", ""]),
)
def test_scores_are_those_of_the_reference(
    tmp_path_factory: pytest.TempPathFactory, loss: str, texts: list[str], settings: Any, newline: str
) -> None:
    pruned = {number: row for row, number in enumerate(range(0, 97, 3))} if settings["quantised"] else None
    file = ModelFile(loss=loss, bucket=97, pruned=pruned, **settings)
    path = saved(tmp_path_factory.mktemp("model"), file)
    expected = [reference_scores(file, text, newline) for text in texts]
    # A step of the sigmoid's table is 1/128 at most, and 32 bits may fall on its other side.
    tolerance = 0.008 if loss in ("ova", "ns") else 2e-5
    assert np.allclose(scores_of(path, texts, newline), expected, atol=tolerance, rtol=0)


def test_documents_are_kept_or_removed_by_thresholds_and_counted(tmp_path: Path) -> None:
    path = saved(tmp_path, ModelFile())
    scores = [row[0] for row in scores_of(path, TEXTS)]
    least = sorted(scores)[2]
    kept = [text for text, score in zip(TEXTS, scores, strict=True) if score >= least]
    result = FastTextFilter(FastText(model=path, keep={"hq": least}), statistics=True).apply(
        documents_of(TEXTS)
    )
    assert result.batch["text"].to_pylist() == kept
    assert result.counts == {"too_short": 3, "fasttext_not_kept": 2}
    assert result.batch["fasttext_hq"].to_pylist() == [score for score in scores if score >= least]
    others = FastTextFilter(FastText(model=path, remove={"hq": least}), statistics=False).apply(
        documents_of(TEXTS)
    )
    assert others.batch["text"].to_pylist() == [text for text in TEXTS if text not in kept]
    assert others.counts == {"too_short": 3, "fasttext_removed": 2}
    assert others.batch.schema.names == ["text", "position"]


def test_scores_of_several_models_are_columns_beside_each_other(tmp_path: Path) -> None:
    first, second = (saved(tmp_path, ModelFile(seed=seed), f"{seed}.bin") for seed in (1, 2))
    documents = documents_of(TEXTS)
    for path in (first, second):
        step = FastTextFilter(FastText(model=path, scores=("hq", "__label__é")), statistics=True)
        documents = step.apply(documents)
    assert documents.batch.schema.names[2:] == ["fasttext_hq", "fasttext_é", "fasttext_hq_2", "fasttext_é_2"]
    expected = [row[2] for row in scores_of(second, TEXTS)]
    assert documents.batch["fasttext_é_2"].to_pylist() == expected
    assert documents.batch.num_rows == len(TEXTS)


def test_a_model_of_languages_labels_documents_and_knows_when_it_knows_nothing(tmp_path: Path) -> None:
    path = saved(tmp_path, ModelFile(words=("krill", "whale"), labels=("__label__de", "__label__en")))
    model = FastTextLanguages.load(path)
    best = ["de" if row[0] > row[1] else "en" for row in scores_of(path, TEXTS[:2])]
    section = Language(allow=("de", "en"), min_score=0.0, model=path)
    step = LanguageFilter(section, statistics=True, model=model)
    result = step.apply(documents_of([*TEXTS[:2], "unknown"]))
    assert result.batch["language"].to_pylist() == best
    assert result.counts == {"too_short": 3, "language": 1, DROPPED_IN: 1}
    with pytest.raises(ConfigError, match="does not know `fr`"):
        LanguageFilter(Language(allow=("fr",), model=path), statistics=False, model=model)


def test_a_run_scores_with_a_model_and_is_another_run_with_another_model(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    path = saved(tmp_path, ModelFile())
    scores = [row[0] for row in scores_of(path, TEXTS)]
    least = sorted(scores)[1]
    preprocess = {
        "prepared_path": str(tmp_path / "out"),
        "output": "text",
        "min_chars": 0,
        "statistics": True,
        "filters": [
            {"fasttext": {"model": path, "keep": {"hq": least}}},
            {"language": {"model": path, "allow": None, "min_score": 0}},
        ],
    }
    config = {"datasets": [{"path": str(source)}], "preprocess": preprocess}
    summary = krill.preprocess(config, memory="400MB")
    assert summary.manifest.documents["dropped"] == {"fasttext_not_kept": 1}
    table = parquet.read_table(tmp_path / "out" / "text-00000.parquet")
    assert table["fasttext_hq"].to_pylist() == [score for score in scores if score >= least]
    assert set(table["language"].to_pylist()) <= {"hq", "lq", "é"}
    before = fingerprints_of([FastTextFilter(FastText(model=path, keep={"hq": 0.5}), statistics=False)])
    saved(tmp_path, ModelFile(seed=9))
    after = fingerprints_of([FastTextFilter(FastText(model=path, keep={"hq": 0.5}), statistics=False)])
    assert before != after


def test_its_share_is_known_before_it_is_read_and_a_file_counts_once(tmp_path: Path) -> None:
    words = [f"word{number}" for number in range(2000)]
    file = ModelFile(words=words, bucket=500, word_ngrams=2)
    path = saved(tmp_path, file)
    size = Path(path).stat().st_size
    assert model_bytes(path) == size + 28 * 2003 + 3_000_000
    sections = [FastText(model=path, keep={"hq": 0.5}), Language(model=path), Language()]
    _, held = fasttext_needs(sections, 4_000_000, 2, made=False, long=NO_LONG_RECORDS)
    assert held.minimum == model_bytes(path)
    assert list(fasttext_needs([Language()], 4_000_000, 2, made=False, long=NO_LONG_RECORDS)) == []


GOOD = ModelFile(bucket=50, word_ngrams=2, maxn=3)
WHALE = b"whale\0" + struct.pack("<q", 48)
NOT_A_NUMBER = struct.pack("<f", float("nan"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it is not a fastText model"),
        (b"__label__a some text\n" * 10, "it is not a fastText model"),
        (ModelFile(version=13).bytes(), "another version than 11 and 12"),
        (ModelFile(model=1).bytes(), "not trained to classify"),
        (ModelFile(labels=()).bytes(), "has no label"),
        (ModelFile(word_ngrams=2).bytes(), "n-grams and no buckets"),
        (ModelFile(maxn=99, bucket=5).bytes(), "settings are impossible"),
        (ModelFile(bucket=50, word_ngrams=2, pruned={1: 0}).bytes(), "pruned and not quantised"),
        (GOOD.bytes()[:-4] + NOT_A_NUMBER, "not a number"),
        (GOOD.bytes() + b"\0", "something follows it"),
        (GOOD.bytes().replace(WHALE + b"\0", WHALE + b"\1"), "labels do not follow"),
    ],
)
def test_a_file_that_is_no_such_model_is_refused_with_the_reason(
    tmp_path: Path, content: bytes, said: str
) -> None:
    (tmp_path / "model.bin").write_bytes(content)
    with pytest.raises(InputError, match=said):
        FastTextModel.load(str(tmp_path / "model.bin"))


def test_a_model_that_is_cut_short_anywhere_is_refused(tmp_path: Path) -> None:
    for file in (GOOD, ModelFile(quantised=True, norms=True)):
        whole = file.bytes()
        for end in (*range(0, 200, 7), *range(200, len(whole), 997), len(whole) - 1):
            (tmp_path / "model.bin").write_bytes(whole[:end])
            with pytest.raises(InputError, match=r"cut short|not a fastText model"):
                FastTextModel.load(str(tmp_path / "model.bin"))


def test_sizes_that_lie_take_no_memory(tmp_path: Path) -> None:
    whole = GOOD.bytes()
    kinds = ((64, struct.pack("<i", 2**31 - 1), "fit together"), (84, struct.pack("<q", 2**40), "wrong"))
    for at, number, said in kinds:  # entries, pruned buckets
        lying = whole[:at] + number + whole[at + len(number) :]
        (tmp_path / "model.bin").write_bytes(lying)
        with pytest.raises(InputError, match=said):
            FastTextModel.load(str(tmp_path / "model.bin"))
        with pytest.raises(InputError, match="a size in it is wrong"):
            model_bytes(str(tmp_path / "model.bin"))
    start = len(GOOD.header() + GOOD.dictionary()) + 1
    lying = whole[:start] + struct.pack("<2q", 2**30, 2**30) + whole[start + 16 :]
    (tmp_path / "model.bin").write_bytes(lying)
    with pytest.raises(InputError, match="a size in it is wrong"):
        FastTextModel.load(str(tmp_path / "model.bin"))


def test_a_path_that_is_no_file_and_a_label_that_is_missing_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.bin` can't be used: it can't be read: No such file"):
        FastTextModel.load(str(tmp_path / "none.bin"))
    with pytest.raises(InputError, match="it is not a file"):
        model_bytes(str(tmp_path))
    path = saved(tmp_path, ModelFile())
    with pytest.raises(ConfigError, match="has no label `hqq`; did you mean `hq`") as caught:
        FastTextFilter(FastText(model=path, keep={"hqq": 0.5}), statistics=False)
    assert "it has `hq`, `lq`, `é`" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "must name labels under `keep`, `remove` or `scores`"),
        ({"keep": {"a": 0.5}, "remove": {"b": 0.5}}, "not both"),
        ({"keep": {"a": 1.5}}, "must be a number from 0 up to 1"),
        ({"scores": ["a"], "newline": "x"}, "newline"),
    ],
)
def test_sections_that_make_no_sense_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load_config({"preprocess": {"filters": [{"fasttext": {"model": "m.bin", **options}}]}})
