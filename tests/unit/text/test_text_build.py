"""Steps stand in the order of the config, what gets too short is dropped, and the plan knows what is held."""

from __future__ import annotations

import gzip
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from krill.budget import Kind
from krill.config.preprocess import PreprocessConfig
from krill.corpus.documents import Documents
from krill.errors import ConfigError
from krill.text import Step
from krill.text.blocklist import blocklist_bytes
from krill.text.build import REASONS, fingerprints_of, reasons_of, step_needs, steps_of
from krill.text.clean import LongEnough
from krill.text.language import DROPPED_IN
from krill.text.language_model import LANGUAGE_BYTES
from krill.text.user_step import FunctionStep

ENGLISH = """The weather was fine that day, and so we went down to the river with the children.
A ferry had to be waited for, which nobody minded, because herons were fishing on the other bank.
My aunt, who knew every bird by its call, named them for us and drew two of them with a pencil.
"You must keep still," she said, "and have some patience, or all that you will see is their wings."
By noon it had become hot, so the mill was opened for us and we ate our bread in its shadow.
The miller told stories of floods, of a barge that sank with its salt, and of the bridge to the north.
When evening came, everybody was tired; only the dog wished to go back and look for the lost ball.
I have often thought of that walk since then, and I would gladly give a year to do it once more."""
GERMAN = "Das Wetter war schön an jenem Tag, und so gingen wir mit den Kindern zum Fluss hinunter."


def documents_of(texts: Sequence[str | None]) -> Documents:
    columns = [pa.array(texts, pa.large_string()), pa.array(range(len(texts)), pa.uint64())]
    return Documents(pa.RecordBatch.from_arrays(columns, ["text", "position"]), {}, ())


def after(steps: Sequence[Step], documents: Documents) -> Documents:
    for step in steps:
        documents = step.apply(documents)
    return documents


def names_of(steps: Sequence[Step]) -> list[str]:
    return [type(step).__name__ for step in steps]


@pytest.fixture
def own_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "krill_own_steps.py").write_text(
        "import pyarrow as pa\n"
        "def first_word(batch):\n"
        "    texts = [text.split()[0] for text in batch['text'].to_pylist()]\n"
        "    return batch.set_column(0, 'text', pa.array(texts, pa.large_string()))\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "krill_own_steps", raising=False)


def test_without_filters_there_is_cleaning_alone() -> None:
    assert names_of(steps_of(PreprocessConfig())) == ["CleanText"]
    assert step_needs(PreprocessConfig(), 2) == []


def test_steps_stand_in_the_order_of_the_config(own_steps: None) -> None:
    settings = PreprocessConfig(
        filters=[
            "gopher_quality",
            "c4",
            {"language": {"allow": ["en"]}},
            "fineweb",
            {"blocklist": {"patterns": ["casino"]}},
            "krill_own_steps:first_word",
        ],
        max_words=1000,
    )
    assert names_of(steps_of(settings)) == [
        "CleanText",
        "QualityFilter",  # limits of length
        "QualityFilter",  # both filters in one
        "LongEnough",  # for c4 may have shortened texts
        "LanguageFilter",
        "QualityFilter",
        "BlockListFilter",
        "FunctionStep",
        "LongEnough",
    ]


def test_functions_of_a_call_come_last_and_each_is_checked() -> None:
    def keep_all(batch: pa.RecordBatch) -> list[bool]:
        return [True] * batch.num_rows

    steps = steps_of(PreprocessConfig(min_chars=0), extra=[keep_all])
    assert names_of(steps) == ["CleanText", "FunctionStep"]
    with pytest.raises(ConfigError, match="is not a function but a `int`"):
        steps_of(PreprocessConfig(), extra=[3])  # type: ignore[list-item]


def test_a_text_that_an_own_step_shortened_is_too_short(own_steps: None) -> None:
    settings = PreprocessConfig(filters=["krill_own_steps:first_word"], min_chars=4)
    result = after(steps_of(settings), documents_of(["many words", "few words", "word", None, "x"]))
    assert result.batch["text"].to_pylist() == ["many", "word"]
    assert result.counts == {"not_text": 1, "too_short": 2, "invalid_utf8": 0}
    assert result.rejected is not None
    assert [batch["reason"].to_pylist() for batch in result.rejected] == [
        ["not_text", "too_short"],
        ["too_short"],
    ]


@given(st.lists(st.text("aé漢\U0001f600\n", max_size=12)), st.integers(1, 12))
def test_enough_is_counted_in_characters(texts: list[str], min_chars: int) -> None:
    result = LongEnough(min_chars).apply(documents_of(["padding", *texts, "padding"]))
    expected = [text for text in ["padding", *texts, "padding"] if len(text) >= min_chars]
    assert result.batch["text"].to_pylist() == expected


def test_a_slice_is_counted_by_its_own_rows() -> None:
    batch = documents_of(["ééé", "é", "ééé"]).batch.slice(1)
    assert LongEnough(2).apply(Documents(batch)).batch["position"].to_pylist() == [2]


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        ([{"language": {"allow": ["xx"]}}], "does not know `xx`"),
        ([{"blocklist": {"patterns": ["("]}}], "can't be used"),
        (["no_such_module:f"], "there is no module `no_such_module`"),
    ],
)
def test_what_can_not_be_used_is_told_when_the_steps_are_made(filters: list[object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        steps_of(PreprocessConfig(filters=filters))


def test_the_plan_is_told_what_is_held_and_what_is_only_watched() -> None:
    settings = PreprocessConfig(
        filters=[{"language": {}}, {"blocklist": {"patterns": ["x"]}}, "gopher_quality", "module:function"]
    )
    one, two = ({need.name: need for need in step_needs(settings, threads)} for threads in (1, 2))
    assert list(one) == [
        "quality filters",
        "the language model",
        "reading the language model",
        "block lists",
        "patterns of block lists",
        "steps of your own",
    ]
    assert one["steps of your own"].kind is Kind.WATCHED
    assert one["reading the language model"].during == "load"
    assert two["the language model"].minimum - one["the language model"].minimum < 2_000_000
    assert all(two[name].minimum >= need.minimum > 0 for name, need in one.items())


def test_steps_that_are_made_hold_their_models_already() -> None:
    settings = PreprocessConfig(filters=[{"language": {}}, {"blocklist": {"patterns": ["x+"]}}])
    before = {need.name: need.minimum for need in step_needs(settings, 2)}
    after_making = {need.name: need.minimum for need in step_needs(settings, 2, made=True)}
    assert "reading the language model" not in after_making
    assert before["the language model"] - after_making["the language model"] == LANGUAGE_BYTES
    assert before["patterns of block lists"] == blocklist_bytes(settings.filters[1])
    assert "patterns of block lists" not in after_making


_APPLYING = """
import sys
import numpy as np
from krill.config.preprocess import PreprocessConfig
from krill.corpus.arrays import as_arrow
from krill.corpus.buffers import text_column
from krill.corpus.documents import Documents
from krill.text.build import steps_of
import pyarrow as pa

def keep(batch):
    return [True] * batch.num_rows

settings = PreprocessConfig(filters=["web-en", {"blocklist": {"patterns": ["x"]}}], statistics=True)
texts = text_column(np.array([0, 200]), np.full(200, ord("a"), np.uint8))
batch = pa.RecordBatch.from_arrays([texts, as_arrow(np.zeros(1, np.uint64))], ["text", "position"])
documents = Documents(batch, {}, ())
for step in steps_of(settings, [keep]):
    documents = step.apply(documents)
print(sorted({"pandas", "py3langid", "duckdb"} & set(sys.modules)))
"""


def test_no_step_imports_what_the_plan_does_not_know_of() -> None:
    done = subprocess.run([sys.executable, "-c", _APPLYING], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_functions_of_a_call_are_planned_for_too() -> None:
    assert [need.name for need in step_needs(PreprocessConfig(), 1, extra=[lambda batch: batch])] == [
        "steps of your own"
    ]


def test_what_shapes_a_run_besides_the_config_has_fingerprints(own_steps: None, tmp_path: Path) -> None:
    (tmp_path / "block.txt").write_text("casino\n")
    settings = PreprocessConfig(
        filters=[{"blocklist": {"file": "block.txt"}}, "gopher_quality", "krill_own_steps:first_word"]
    )
    before = fingerprints_of(steps_of(settings))
    (tmp_path / "block.txt").write_text("casinos\n")
    now = fingerprints_of(steps_of(settings))
    assert len(before) == len(now) == 2
    assert before[0] != now[0]
    assert before[1] == now[1] == FunctionStep.named("krill_own_steps:first_word").fingerprint()


def test_the_preset_for_english_keeps_english_prose_and_says_why_the_rest_went() -> None:
    settings = PreprocessConfig(filters=["web-en"], statistics=True)
    result = after(steps_of(settings), documents_of([ENGLISH, GERMAN * 9, "of the and with " * 100]))
    assert result.batch["text"].to_pylist() == [ENGLISH]
    assert result.batch["language"].to_pylist() == ["en"]
    assert result.counts["language"] == result.counts["language:de"] == 1
    dropped = {reason: count for reason, count in result.counts.items() if not reason.startswith(DROPPED_IN)}
    assert sum(dropped.values()) == 2
    assert set(dropped) - {"not_text", "too_short", "invalid_utf8"} <= set(REASONS)


def test_the_preset_judges_real_text_the_same_however_it_is_cut_into_batches(sample: Path) -> None:
    with gzip.open(sample) as lines:
        texts = [orjson.loads(line)["text"] for line in lines][::4]
    steps = steps_of(
        PreprocessConfig(filters=["web-en", {"blocklist": {"patterns": ["lorem"]}}], statistics=True)
    )
    whole = documents_of(texts)
    expected = after(steps, whole)
    pieces = [
        after(steps, Documents(whole.batch.slice(begin, 97), {}, ())) for begin in range(0, len(texts), 97)
    ]
    assert pa.concat_batches([piece.batch for piece in pieces]).equals(expected.batch)
    counts = sum((Counter(piece.counts) for piece in pieces), Counter[str]())
    assert counts == Counter({reason: count for reason, count in expected.counts.items() if count})
    in_languages = sum(count for reason, count in counts.items() if reason.startswith(DROPPED_IN))
    assert in_languages == counts["language"] + counts["language_unsure"] > 0
    assert expected.batch.num_rows + counts.total() - in_languages - counts["invalid_utf8"] == len(texts)
    assert 0 < expected.batch.num_rows < len(texts) // 2  # most of the sample is lists, tables and code
    assert set(expected.batch["language"].to_pylist()) == {"en"}


def test_reasons_stand_in_the_order_in_which_documents_meet_them() -> None:
    filters = ["fineweb", {"blocklist": {"patterns": ["x"]}}, "gopher_quality", "c4"]
    settings = PreprocessConfig.model_validate({"min_words": 3, "filters": filters})
    found = reasons_of(steps_of(settings, [lambda batch: batch]))
    families = dict.fromkeys(reason.partition("_")[0] for reason in found)
    assert list(families) == ["not", "too", "fineweb", "blocklisted", "gopher", "c4", "step:<lambda>"]
    assert found[:4] == ["not_text", "too_short", "too_long", "too_few_words"]
    assert len(found) == len(set(found))
    assert set(found[:-1]) - {"not_text", "too_short"} <= set(REASONS)
