"""Columns carried along in the types that they can have further on.

Comes in: the schema of a columnar file, and its rows. Goes out: the same, but what Arrow can't pick rows from
or Parquet can't hold has another type: views and runs are plain columns. A column for which there is no such
type is an InputError before anything is read. Held in memory: a column once more while it is cast.
"""

from __future__ import annotations

import pyarrow as pa

from krill.corpus.formats import CorpusFile
from krill.errors import InputError

_PLAIN = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}


def carried_schema(file: CorpusFile, schema: pa.Schema) -> pa.Schema:
    """The schema with the types that columns are carried in."""
    fields = list(schema)
    for name in file.source.columns:
        index = schema.get_field_index(name)
        kind = carried_type(fields[index].type)
        if kind is None:
            raise InputError(
                f"the column `{name}` of `{file.path}` has the type `{fields[index].type}`, which"
                " can't be carried",
                hint="take it out of `columns:`, or convert it",
            )
        fields[index] = fields[index].with_type(kind)
    return pa.schema(fields, schema.metadata)


def carried_type(kind: pa.DataType) -> pa.DataType | None:
    """The type that a column of this type is carried in; None if there is none."""
    types = pa.types
    if types.is_run_end_encoded(kind):
        return _inner_type(kind.value_type)
    if types.is_dictionary(kind):
        values = _inner_type(kind.value_type)
        return None if values is None else pa.dictionary(kind.index_type, values, kind.ordered)
    return _inner_type(kind)


def _inner_type(kind: pa.DataType) -> pa.DataType | None:
    types = pa.types
    if kind in _PLAIN:
        return _PLAIN[kind]
    if types.is_union(kind) or types.is_interval(kind) or types.is_run_end_encoded(kind):
        return None
    if _is_empty(kind):
        return None
    if types.is_dictionary(kind) or not types.is_nested(kind):
        return kind
    fields = [kind.field(index) for index in range(kind.num_fields)]
    kinds = [_inner_type(field.type) for field in fields]
    if None in kinds:
        return None
    if kinds == [field.type for field in fields]:
        return kind
    fields = [field.with_type(inner) for field, inner in zip(fields, kinds, strict=True)]
    if types.is_struct(kind):
        return pa.struct(fields)
    if types.is_map(kind):
        entry = fields[0].type
        return pa.map_(entry.field(0), entry.field(1), kind.keys_sorted)
    if types.is_fixed_size_list(kind):
        return pa.list_(fields[0], kind.list_size)
    return pa.large_list(fields[0]) if "large" in str(kind) else pa.list_(fields[0])


def _is_empty(kind: pa.DataType) -> bool:
    """Whether a value has no bytes or items by its type, which Parquet can't hold or gives back otherwise."""
    if pa.types.is_fixed_size_list(kind):
        return bool(kind.list_size == 0)
    return pa.types.is_fixed_size_binary(kind) and bool(kind.byte_width == 0)


def as_carried(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows that were checked, their columns cast to the types of `schema`, which `carried_schema` gave."""
    for index, name in enumerate(rows.schema.names):
        column, kind = rows.column(index), schema.field(name).type
        if column.type != kind and carried_type(column.type) == kind:
            rows = rows.set_column(index, schema.field(name), cast(column, kind))
    return rows


def cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """What Arrow's own cast does, and dictionaries of views and runs as well."""
    if pa.types.is_run_end_encoded(column.type):
        import pyarrow.compute as pc

        if column.type.value_type == kind:
            return pc.run_end_decode(column)
        runs = pa.RunEndEncodedArray.from_arrays(column.run_ends, cast(column.values, kind))
        return pc.run_end_decode(runs).slice(column.offset, len(column))
    if pa.types.is_dictionary(column.type) and column.type.value_type in _PLAIN:
        values = column.dictionary.cast(_PLAIN[column.type.value_type], safe=False)
        column = pa.DictionaryArray.from_arrays(column.indices, values, ordered=column.type.ordered)
    return column if column.type == kind else column.cast(kind, safe=False)
