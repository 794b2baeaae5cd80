"""Languages: text is prepared as Python prepares it, models are read and walked as py3langid does, and the
step keeps what is allowed."""

from __future__ import annotations

import io
import lzma
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from py3langid.langid import LanguageIdentifier

from krill import _native
from krill.config.filters import Language
from krill.corpus.buffers import text_buffers
from krill.corpus.documents import Documents
from krill.errors import ConfigError
from krill.text.language import LanguageFilter
from krill.text.language_model import LANGUAGE_BYTES, LANGUAGE_LOADING_BYTES, load
from properties import tried

ENGLISH = "The weather was fine that day, and so we went down to the river with the children."
GERMAN = "Das Wetter war schön an jenem Tag, und so gingen wir mit den Kindern zum Fluss hinunter."
UNSURE = "la la la"


def documents_of(texts: list[str], **columns: list[str]) -> Documents:
    arrays = [pa.array(texts, pa.large_string()), pa.array(range(len(texts)), pa.uint64())]
    arrays += [pa.array(values, pa.string()) for values in columns.values()]
    return Documents(pa.RecordBatch.from_arrays(arrays, ["text", "position", *columns]), {"too_short": 3}, ())


def prepared(text: str) -> str:
    """What py3langid looks at."""
    return unicodedata.normalize("NFC", text.lower() if text.isupper() else text)


# ---- text as the model sees it


MARKS = "\u0300\u0301\u0323\u0327\u0344\u0345\u05b0\u05bc\u064b\u0651\u093c\u094d\u0e38\u3099\U0001d165"
LETTERS = (
    "AaÄäǅ\u03a3\u03c3\u03c2\u0130\u0131\u017fßΐᾈ가각각ẞ\u212b\u2126\u0958\ufb1d\U0001d15eのが漢1 .\u2019:"
)


@given(st.text(st.sampled_from(MARKS + LETTERS), max_size=12) | st.text(max_size=12))
@tried(400)
def test_text_is_prepared_as_python_does(text: str) -> None:
    encodable = text.encode("utf-8", "ignore")
    assert _native.language_text(encodable) == prepared(encodable.decode()).encode()


@given(st.text(st.sampled_from("AΣÜ\u0301.:1 \u0130\u02b0\u00ad"), max_size=12))
@tried(400)
def test_capitals_become_small_as_python_does(text: str) -> None:
    assert _native.language_text(text.encode()) == prepared(text).encode()


def test_every_assigned_character_is_prepared_as_python_does() -> None:
    differing = []
    for point in range(0x110000):
        character = chr(point)
        if unicodedata.category(character) in ("Cn", "Co", "Cs"):
            continue
        for text in (character, f"a{character}\u0301", f"e\u0323{character}"):
            if _native.language_text(text.encode()) != prepared(text).encode():
                differing.append(text)
    assert differing == []


def test_many_marks_are_ordered_whatever_their_number() -> None:
    text = "x" + "\u0301\u0323" * 5000 + "e\u0301"
    assert _native.language_text(text.encode()) == prepared(text).encode()


@given(
    st.lists(
        st.sampled_from([b"aB", b"\xff", b"\xc3", b"\xe2\x82", b"\xed\xa0\x80", "\u0301\u0323".encode()])
    )
)
def test_bytes_that_are_not_utf8_stay_where_they_are(pieces: list[bytes]) -> None:
    result = _native.language_text(b"".join(pieces))
    assert result.count(b"\xff") == pieces.count(b"\xff")
    if "\u0301\u0323".encode() not in pieces:
        assert result == b"".join(pieces)


# ---- models


def saved(path: Path, **changes: Any) -> Path:
    """A file as py3langid's training writes it, of an automaton over the bytes of `abc`."""
    rng = np.random.default_rng(7)
    states = 300
    rows = rng.integers(0, states, (200, 256)).astype(np.uint32)
    rows[:, 128:] = rows[0, 128:]
    features = np.where(rng.random(states) < 0.3, -1, rng.integers(0, 90, states)).astype(np.int32)
    weights = -rng.choice(np.linspace(2, 15, 500), (90, 5)).astype(np.float16)
    weights[rng.random((90, 5)) < 0.5] = -12.5
    arrays = {
        "ptc": weights,
        "pc": rng.normal(size=5).astype(np.float32),
        "classes": np.array(["aa", "bb", "cc", "aa", "ddd"]),
        "nextmove": rows.reshape(-1),
        "nextmove_row": rng.integers(0, 200, states).astype(np.uint16),
        "out_feat": features,
    }
    archive = io.BytesIO()
    np.savez(archive, **{**arrays, **changes})
    path.write_bytes(lzma.compress(archive.getvalue()))
    return path


@pytest.fixture(scope="module")
def random_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("model") / "random.npz.xz")


@pytest.fixture(scope="module")
def peer(random_model: Path) -> LanguageIdentifier:
    return LanguageIdentifier.from_modelpath(str(random_model), norm_probs=True)


@given(texts=st.lists(st.text(max_size=8).map(lambda text: text * 40) | st.text(max_size=60), max_size=6))
@tried(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_automaton_is_walked_as_py3langid_walks_it(
    random_model: Path, peer: LanguageIdentifier, texts: list[str]
) -> None:
    """States of a random one depend on all that was read: no lane of a long text begins in the right one."""
    model = load(random_model)
    column = pa.array([text.encode("utf-8", "ignore").decode() for text in texts], pa.large_string())
    languages, scores = model.native.classify(*text_buffers(column))
    expected = [peer.classify(text) for text in column.to_pylist()]
    assert [model.languages[language] for language in languages] == [language for language, _ in expected]
    assert scores == pytest.approx([score for _, score in expected], abs=1e-5)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ptc": np.zeros((3, 3), np.float32)}, "array ptc"),
        ({"ptc": np.zeros((0, 5), np.float16)}, "no features"),
        ({"ptc": np.linspace(0.1, 0.2, 450).astype(np.float16).reshape(90, 5)}, "another range"),
        ({"ptc": np.linspace(1, 99, 450).astype(np.float16).reshape(90, 5)}, "another range"),
        ({"ptc": np.full((90, 5), np.nan, np.float16)}, "another range"),
        ({"nextmove": np.zeros(257, np.uint32)}, "256 states"),
        ({"nextmove": np.full(256 * 200, 300, np.uint32)}, "state that is not there"),
        ({"nextmove_row": np.full(300, 200, np.uint16)}, "state that is not there"),
        ({"out_feat": np.full(300, 90, np.int32)}, "feature without weights"),
        ({"pc": np.zeros(4, np.float32)}, "different numbers of languages"),
    ],
)
def test_a_model_that_does_not_fit_together_is_refused(tmp_path: Path, changes: Any, said: str) -> None:
    path = saved(tmp_path / "model.npz.xz", **changes)
    with pytest.raises(ConfigError, match=said) as caught:
        load(path)
    assert str(path) in caught.value.message
    assert "pip install" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-2000], lambda data: b"no model", lambda data: data[:3]]
)
def test_a_damaged_model_is_refused(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = saved(tmp_path / "whole.npz.xz")
    damaged = tmp_path / "damaged.npz.xz"
    damaged.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ConfigError, match="can't be read"):
        load(damaged)


def test_objects_in_a_model_are_never_unpickled(tmp_path: Path) -> None:
    path = saved(tmp_path / "model.npz.xz", ptc=np.array([[print]], object))
    with pytest.raises(ConfigError, match="not made of plain rows"):
        load(path)


def test_without_py3langid_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("krill.text.language_model.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="py3langid is not installed") as caught:
        load()
    assert "py3langid" in (caught.value.hint or "")


def test_a_model_is_loaded_once() -> None:
    with ThreadPoolExecutor(4) as pool:
        models = list(pool.map(lambda _: load(), range(4)))
    assert all(model is models[0] for model in models)


_LOADING = """
from pathlib import Path
import krill.text.build
from krill.text.language_model import load

def status(name):
    return int(Path("/proc/self/status").read_text().split(name + ":")[1].split()[0]) * 1024

before = status("VmRSS")
model = load()
print(status("VmRSS") - before, status("VmHWM") - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_the_model_takes_the_memory_that_the_plan_is_told() -> None:
    done = subprocess.run([sys.executable, "-c", _LOADING], capture_output=True, text=True, check=True)
    held, peak = map(int, done.stdout.split())
    assert 0.7 * LANGUAGE_BYTES < held <= LANGUAGE_BYTES
    assert peak <= LANGUAGE_BYTES + LANGUAGE_LOADING_BYTES


# ---- the step


def test_other_languages_and_unsure_documents_are_dropped_and_counted() -> None:
    step = LanguageFilter(Language(allow=("en", "fr")), statistics=False)
    result = step.apply(documents_of([ENGLISH, GERMAN, "the and of to in 1234567890 1234567890"]))
    assert result.batch["text"].to_pylist()[0] == ENGLISH
    assert result.counts["too_short"] == 3
    assert result.counts["language"] == result.counts["language:de"] == 1


def test_a_score_must_be_above_the_least() -> None:
    measured = LanguageFilter(Language(allow=("de",), min_score=0.0), statistics=True)
    score = measured.apply(documents_of([GERMAN])).batch["language_score"][0].as_py()
    strict = LanguageFilter(Language(allow=("de",), min_score=score), statistics=False)
    result = strict.apply(documents_of([GERMAN]))
    assert result.counts == {"too_short": 3, "language_unsure": 1, "language:de": 1}
    assert result.rejected is not None
    assert result.rejected[0]["reason"].to_pylist() == ["language_unsure"]


def test_what_was_measured_becomes_columns() -> None:
    step = LanguageFilter(Language(allow=("en", "de"), min_score=0.5), statistics=True)
    batch = step.apply(documents_of([ENGLISH, GERMAN])).batch
    batch.validate(full=True)
    assert batch.schema.names == ["text", "position", "language", "language_score"]
    assert batch["language"].to_pylist() == ["en", "de"]
    assert all(0.9 < score <= 1 for score in batch["language_score"].to_pylist())


def test_a_column_of_the_input_keeps_its_name() -> None:
    step = LanguageFilter(Language(allow=("en",)), statistics=True)
    batch = step.apply(documents_of([ENGLISH], language=["de"])).batch
    assert batch.schema.names == ["text", "position", "language", "language_2", "language_score_2"]
    assert (batch["language"].to_pylist(), batch["language_2"].to_pylist()) == (["de"], ["en"])


def test_an_empty_batch_stays_empty_but_has_the_columns() -> None:
    batch = LanguageFilter(Language(), statistics=True).apply(documents_of([])).batch
    assert (batch.num_rows, batch.schema.names[2:]) == (0, ["language", "language_score"])


def test_a_slice_is_judged_by_its_own_rows() -> None:
    whole = documents_of([GERMAN, ENGLISH, GERMAN]).batch
    result = LanguageFilter(Language(), statistics=False).apply(Documents(whole.slice(1, 1)))
    assert result.batch["text"].to_pylist() == [ENGLISH]


def test_unknown_languages_are_named_with_the_nearest_known() -> None:
    with pytest.raises(ConfigError) as caught:
        LanguageFilter(Language(allow=("en", "deu")), statistics=False)
    assert caught.value.message == "the language model does not know `deu`; did you mean `de`?"
    assert " el, en, eo," in (caught.value.hint or "")


def test_threads_get_the_same_answers() -> None:
    step = LanguageFilter(Language(allow=("en",)), statistics=True)
    documents = documents_of([ENGLISH, GERMAN, UNSURE] * 50)
    expected = step.apply(documents).batch
    with ThreadPoolExecutor(2) as pool:
        assert all(result.batch.equals(expected) for result in pool.map(step.apply, [documents] * 8))
