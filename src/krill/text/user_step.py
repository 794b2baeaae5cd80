"""A user's step: a Python function on an Arrow batch, from a config or from a call.

In: cleaned documents. The function gets a `pa.RecordBatch` with the columns `text`, `position` and those
carried along. Out: what it returns, either a batch of the same rows with other texts or more columns, or a
mask of the rows to keep. Held in memory: the batch, its successor, and whatever the function holds: the plan
can't bound that, it is watched.

The function runs in several threads at once and must depend on the batch alone, for batches are cut as it
suits: what it returns for a row must not depend on the rows beside it.

Counted: `step:<name>` is rows that the mask dropped.
"""

from __future__ import annotations

import inspect
import marshal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from importlib import import_module, invalidate_caches
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from krill.config.messages import listed, shown
from krill.corpus.arrays import as_numpy
from krill.corpus.documents import Documents
from krill.errors import ConfigError, InputError, KrillError
from krill.text.step import CONTROL_SPANS, TRAINED_SPANS, drop

Function = Callable[[pa.RecordBatch], Any]

_WITHOUT_REFERENCES: Final = 2  # the version of marshal in which equal code gives equal bytes
_RETURNS: Final = (
    "return the batch with the same rows, its text changed or columns added, or one truth value a row to keep"
)
_NAMES: Final = "return the columns `text` and `position`, and each other one once"


@dataclass(frozen=True, slots=True)
class FunctionStep:
    """Applies `function`, which is called `name` in reasons and errors."""

    function: Function = field(repr=False)
    name: str

    @classmethod
    def named(cls, path: str) -> FunctionStep:
        """The step `module:function`, found on Python's path or in the working folder."""
        module_name, _, name = path.partition(":")
        found: Any = _module(module_name, path)
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is None:
            raise ConfigError(
                f"there is no `{name}` in the module `{module_name}` of the step `{path}`",
                hint=f"define `{name}` in {getattr(sys.modules[module_name], '__file__', module_name)}",
            )
        return cls.of(found, path)

    @classmethod
    def of(cls, function: Any, path: str | None = None) -> FunctionStep:
        if not callable(function):
            raise ConfigError(
                f"the step `{shown(path or function)}` is not a function but a `{type(function).__name__}`",
                hint="a step is a function that takes a pyarrow.RecordBatch",
            )
        return cls(function, getattr(function, "__name__", None) or type(function).__name__)

    @property
    def reasons(self) -> Sequence[str]:
        return (f"step:{self.name}",)

    def apply(self, documents: Documents) -> Documents:
        batch = documents.batch
        returned = self._call(batch)  # an empty batch too: all must come out with the same columns
        if isinstance(returned, pa.RecordBatch):
            return Documents(self._checked(batch, returned), documents.counts, documents.rejected)
        keep = self._mask(batch, returned)
        return drop(documents, (~keep).astype(np.uint8), self.reasons)

    def fingerprint(self) -> str:
        """Changes when the source of the function's module does: a run is not resumed with another."""
        module = inspect.getmodule(self.function)
        try:
            source = inspect.getsource(module if module is not None else self.function)
        except (OSError, TypeError):  # made where there is no source, as in a console
            source = repr(marshal.dumps(getattr(self.function, "__code__", None), _WITHOUT_REFERENCES))
        return blake2b(f"{self.name}\n{source}".encode(), digest_size=16).hexdigest()

    def _call(self, batch: pa.RecordBatch) -> Any:
        try:
            return self.function(batch)
        except KrillError:
            raise
        except Exception as fault:
            raise self._fault(
                batch, f"raised {_describe_exception(fault)}", "mend the function, or leave the step out"
            ) from fault

    def _check_conversations(self, before: pa.RecordBatch, after: pa.RecordBatch, text: pa.Array) -> None:
        """What is learned is known by its place in the text, which must stay as it was rendered."""
        same = text.equals(before.column("text")) and all(
            name in after.schema.names and after.column(name).equals(before.column(name))
            for name in (TRAINED_SPANS, CONTROL_SPANS)
        )
        if not same:
            hint = "return one truth value a row to keep, or the batch with columns added"
            raise self._fault(before, "changed the text of conversations, or what is learned of it", hint)

    def _checked(self, before: pa.RecordBatch, after: pa.RecordBatch) -> pa.RecordBatch:
        """The batch that came back, if rows and positions are as they were and there is a text."""
        if after.num_rows != before.num_rows:
            raise self._fault(before, f"returned {after.num_rows:,} rows for {before.num_rows:,}", _RETURNS)
        names = after.schema.names
        if not {"text", "position"} <= set(names) or len(set(names)) < len(names):
            raise self._fault(before, f"returned the columns {listed(names) or 'none'}", _NAMES)
        if not after.column("position").equals(before.column("position")):
            raise self._fault(before, "changed the column `position`", _RETURNS)
        text = self._text(before, after.column("text"))
        if TRAINED_SPANS in before.schema.names:
            self._check_conversations(before, after, text)
        columns = [text if name == "text" else after.column(name) for name in after.schema.names]
        fields = [_field(before.schema, field) for field in after.schema]
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))

    def _text(self, before: pa.RecordBatch, text: pa.Array) -> pa.Array:
        kind = text.type
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
            raise self._fault(
                before, f"returned a text of the type `{kind}`", "text must be a column of strings"
            )
        if text.null_count:
            row = text.is_null().to_pylist().index(True)
            raise self._fault(
                before, f"returned null as the text of row {row}", "return an empty text instead"
            )
        text = text.cast(pa.large_string())
        try:
            text.validate(full=True)
        except pa.ArrowInvalid as fault:
            raise self._fault(before, f"returned a text that is not UTF-8: {fault}", _RETURNS) from fault
        return text

    def _mask(self, batch: pa.RecordBatch, returned: Any) -> NDArray[np.bool_]:
        keep = _truth_values(returned)
        if keep is None:
            raise self._fault(batch, f"returned {_described(returned)}", _RETURNS)
        if len(keep) != batch.num_rows:
            raise self._fault(
                batch, f"returned a mask of {len(keep):,} values for {batch.num_rows:,} rows", _RETURNS
            )
        return keep

    def _fault(self, batch: pa.RecordBatch, said: str, hint: str) -> InputError:
        where = f" on the batch at position {batch.column('position')[0].as_py()}" if batch.num_rows else ""
        return InputError(f"the step `{self.name}` {said}{where}", hint=hint)


def _field(before: pa.Schema, field: pa.Field) -> pa.Field:
    """A field as it was before the step, which may have lost its metadata, or as the step made it."""
    at = before.get_field_index(field.name)
    if field.name == "text":
        return pa.field("text", pa.large_string())
    return before.field(at) if at >= 0 and before.field(at).type == field.type else field


def _module(name: str, path: str) -> Any:
    try:
        with _working_folder_on_path():
            invalidate_caches()  # the file may be newer than the last look into its folder
            return import_module(name)
    except Exception as fault:
        if isinstance(fault, ModuleNotFoundError) and fault.name == name.split(".")[0]:
            said = f"there is no module `{name}`"
            hint = f"put {name.split('.')[0]}.py into {Path.cwd()}, or install it"
        else:
            said = f"its module raised {_describe_exception(fault)}"
            hint = "mend the module, or leave the step out"
        raise ConfigError(f"the step `{path}` can't be imported: {said}", hint=hint) from fault


@contextmanager
def _working_folder_on_path() -> Iterator[None]:
    folder = str(Path.cwd())
    if folder in sys.path:
        yield
        return
    sys.path.append(folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _describe_exception(fault: BaseException) -> str:
    """An exception's type and message, and the line of the user's code that it comes from."""
    frames = [frame for frame in traceback.extract_tb(fault.__traceback__) if not _is_ours(frame.filename)]
    # The first frame is the user's; deeper ones may be some library's.
    lines = [frame.lineno for frame in frames if frame.filename == frames[0].filename]
    where = f" at {frames[0].filename}, line {lines[-1]}" if lines else ""
    said = str(fault)
    return f"`{type(fault).__name__}{f': {shown(said)}' if said else ''}`{where}"


def _is_ours(filename: str) -> bool:
    """This module, or the machinery of imports."""
    return filename == __file__ or "importlib" in filename


def _truth_values(returned: Any) -> NDArray[np.bool_] | None:
    """A mask in any of its forms; None if it is not a mask, or has nulls."""
    if isinstance(returned, pa.ChunkedArray):
        returned = returned.combine_chunks()
    if isinstance(returned, pa.Array):
        if returned.type != pa.bool_() or returned.null_count:
            return None
        return as_numpy(returned.cast(pa.uint8()), "uint8").view(np.bool_)
    if isinstance(returned, np.ndarray):
        return returned if returned.dtype == np.bool_ and returned.ndim == 1 else None
    if isinstance(returned, list | tuple):
        return (
            np.array(returned, np.bool_)
            if all(isinstance(value, bool | np.bool_) for value in returned)
            else None
        )
    return None


def _described(returned: Any) -> str:
    kind = f"`{type(returned).__name__}`"
    if isinstance(returned, pa.Array | pa.ChunkedArray):
        nulls = f" with {returned.null_count:,} nulls" if returned.null_count else ""
        return f"{kind} of `{returned.type}`{nulls}"
    if isinstance(returned, np.ndarray):
        return f"{kind} of `{returned.dtype}` and the shape {returned.shape}"
    return kind
