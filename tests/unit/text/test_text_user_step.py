"""Steps of one's own: what a function returns is taken, checked, or told in an error that names it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from krill.corpus.documents import Documents
from krill.errors import ConfigError, InputError
from krill.text.step import STATISTIC
from krill.text.user_step import FunctionStep

TEXTS = ["one", "two two", "drei"]


def documents_of(texts: list[str] = TEXTS) -> Documents:
    columns = [
        pa.array(texts, pa.large_string()),
        pa.array([100 + row for row in range(len(texts))], pa.uint64()),
        pa.array([f"row {row}" for row in range(len(texts))], pa.string()),
    ]
    return Documents(
        pa.RecordBatch.from_arrays(columns, ["text", "position", "origin"]), {"too_short": 3}, ()
    )


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Writes a module into the working folder."""
    monkeypatch.chdir(tmp_path)
    written: list[str] = []

    def write(name: str, source: str) -> None:
        written.append(name)
        (tmp_path / f"{name}.py").write_text(source)

    yield write
    for name in written:
        sys.modules.pop(name, None)


def refused(function: Any, documents: Documents | None = None) -> InputError:
    with pytest.raises(InputError) as caught:
        FunctionStep.of(function).apply(documents or documents_of())
    return caught.value


# ---- what functions may return


@pytest.mark.parametrize(
    "mask",
    [
        pa.array([True, False, True]),
        pa.chunked_array([[True], [False, True]]),
        pa.array([False, True, False, True]).slice(1),
        np.array([True, False, True]),
        [True, False, True],
        (True, np.bool_(False), True),
    ],
)
def test_a_mask_keeps_rows_and_the_others_are_counted(mask: Any) -> None:
    def short(batch: pa.RecordBatch) -> Any:
        return mask

    result = FunctionStep.of(short).apply(documents_of())
    assert result.batch["text"].to_pylist() == ["one", "drei"]
    assert result.counts == {"too_short": 3, "step:short": 1}
    assert result.rejected is not None
    assert result.rejected[0].to_pydict() == {
        "text": ["two two"],
        "position": [101],
        "origin": ["row 1"],
        "reason": ["step:short"],
    }


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_a_batch_may_have_other_texts_and_more_columns(kind: pa.DataType) -> None:
    def upper(batch: pa.RecordBatch) -> pa.RecordBatch:
        texts = [text.upper() for text in batch["text"].to_pylist()]
        changed = batch.set_column(0, "text", pa.array(texts, kind))
        return changed.append_column("length", pa.array([len(text) for text in texts], pa.int32()))

    result = FunctionStep.of(upper).apply(documents_of())
    assert result.batch.schema.field("text").type == pa.large_string()
    assert result.batch.to_pydict() == {
        "text": ["ONE", "TWO TWO", "DREI"],
        "position": [100, 101, 102],
        "origin": ["row 0", "row 1", "row 2"],
        "length": [3, 7, 4],
    }
    assert (result.counts, result.rejected) == ({"too_short": 3}, ())


def test_columns_that_were_measured_stay_known_as_such() -> None:
    batch = documents_of().batch
    measured = pa.field("score", pa.float64(), nullable=False, metadata=STATISTIC)
    batch = batch.append_column(measured, pa.array([0.1, 0.2, 0.3]))

    def rebuilt(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(batch.columns, batch.schema.names)

    assert FunctionStep.of(rebuilt).apply(Documents(batch)).batch.schema.field("score").metadata == STATISTIC


def test_an_empty_batch_gets_the_columns_too() -> None:
    def flag(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.append_column("flag", pa.array([True] * batch.num_rows, pa.bool_()))

    assert FunctionStep.of(flag).apply(documents_of([])).batch.schema.names[-1] == "flag"


# ---- what they may not


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (lambda batch: None, "returned `NoneType`"),
        (lambda batch: pa.Table.from_batches([batch]), "returned `Table`"),
        (lambda batch: [1, 0, 1], "returned `list`"),
        (lambda batch: np.array([1, 0, 1]), "returned `ndarray` of `int64` and the shape (3,)"),
        (lambda batch: np.ones((3, 1), np.bool_), "returned `ndarray` of `bool` and the shape (3, 1)"),
        (lambda batch: pa.array([1, 0, 1]), "returned `Int64Array` of `int64`"),
        (lambda batch: pa.array([True, None, True]), "returned `BooleanArray` of `bool` with 1 nulls"),
        (lambda batch: [True], "returned a mask of 1 values for 3 rows"),
        (lambda batch: batch.slice(1), "returned 2 rows for 3"),
        (lambda batch: batch.select(["text", "origin"]), "returned the columns `text`, `origin`"),
        (lambda batch: batch.select(["position"]), "returned the columns `position`"),
        (
            lambda batch: batch.append_column("text", batch["text"]),
            "returned the columns `text`, `position`, `origin`, `text`",
        ),
        (
            lambda batch: batch.set_column(1, "position", pa.array([1, 2, 3], pa.uint64())),
            "changed the column `position`",
        ),
        (
            lambda batch: batch.set_column(0, "text", pa.array([1, 2, 3])),
            "returned a text of the type `int64`",
        ),
        (
            lambda batch: batch.set_column(0, "text", pa.array(["a", None, "c"])),
            "returned null as the text of row 1",
        ),
        (
            lambda batch: batch.set_column(
                0,
                "text",
                pa.Array.from_buffers(pa.string(), 3, pa.array([b"a", b"\xff", b""], pa.binary()).buffers()),
            ),
            "returned a text that is not UTF-8",
        ),
    ],
)
def test_what_can_not_be_used_is_told_with_function_and_batch(returned: Any, said: str) -> None:
    def mine(batch: pa.RecordBatch) -> Any:
        return returned(batch)

    error = refused(mine)
    assert error.message.startswith("the step `mine` ")
    assert said in error.message
    assert error.message.endswith(" on the batch at position 100")
    assert error.hint


def test_an_exception_is_told_with_its_type_message_and_line(module: Callable[[str, str], None]) -> None:
    lines = [
        "import pyarrow as pa",
        "def broken(batch):",
        "    return pa.array([{}, 1])",
        "def outer(batch):",
        "    return broken(batch)",
    ]
    module("krill_raises", "\n".join(lines))
    error = refused(FunctionStep.named("krill_raises:outer").function)
    assert "the step `outer` raised `ArrowInvalid: " in error.message
    assert error.message.endswith("krill_raises.py, line 3 on the batch at position 100")


def test_an_exception_without_a_message_is_told_by_its_type() -> None:
    def fails(batch: pa.RecordBatch) -> None:
        raise StopIteration

    assert "raised `StopIteration` at " in refused(fails).message


# ---- finding them


def test_a_function_is_found_in_the_working_folder_which_then_leaves_the_path(
    module: Callable[[str, str], None],
) -> None:
    module(
        "krill_found",
        "class Kit:\n    @staticmethod\n    def keep(batch):\n        return [True] * batch.num_rows\n",
    )
    before = list(sys.path)
    step = FunctionStep.named("krill_found:Kit.keep")
    assert sys.path == before
    assert step.apply(documents_of()).batch.num_rows == 3
    assert step.reasons == ("step:keep",)


@pytest.mark.parametrize(
    ("path", "source", "said"),
    [
        ("krill_absent:f", None, "`krill_absent:f` can't be imported: there is no module `krill_absent`"),
        ("krill_a.b:f", "", "can't be imported: its module raised `ModuleNotFoundError"),
        ("krill_b:f", "import krill_missing_too", "its module raised `ModuleNotFoundError: No module named"),
        ("krill_c:f", "x = 1\ny = x / 0\n", "krill_c.py, line 2"),
        ("krill_d:f", "def f(:\n", "its module raised `SyntaxError"),
        ("krill_e:f", "g = 1\n", "there is no `f` in the module `krill_e`"),
        ("krill_f:f", "f = 1\n", "the step `krill_f:f` is not a function but a `int`"),
        ("krill_g:", "", "there is no `` in the module"),
    ],
)
def test_a_function_that_can_not_be_had_is_told_before_anything_is_read(
    module: Callable[[str, str], None], path: str, source: str | None, said: str
) -> None:
    if source is not None:
        module(path.partition(":")[0].partition(".")[0], source)
    with pytest.raises(ConfigError) as caught:
        FunctionStep.named(path)
    assert said in caught.value.message
    assert caught.value.hint


def test_the_fingerprint_is_that_of_the_source(module: Callable[[str, str], None]) -> None:
    source = "LIMIT = 3\n\ndef keep(batch):\n    return [True] * batch.num_rows\n"
    module("krill_print_a", source)
    module("krill_print_b", source)
    module("krill_print_c", source.replace("3", "4"))
    a, b, c = (FunctionStep.named(f"krill_print_{letter}:keep").fingerprint() for letter in "abc")
    assert a == b
    assert a != c


def test_a_function_without_source_has_the_fingerprint_of_its_code() -> None:
    def made(source: str) -> Any:
        names: dict[str, Any] = {"__name__": "no_such_module"}
        exec(source, names)
        return names["keep"]

    source = "def keep(batch):\n    return [(lambda row: row)(True)] * batch.num_rows"
    first, same = FunctionStep.of(made(source)).fingerprint(), FunctionStep.of(made(source)).fingerprint()
    other = FunctionStep.of(made(source.replace("True", "False"))).fingerprint()
    assert first == same
    assert first != other
