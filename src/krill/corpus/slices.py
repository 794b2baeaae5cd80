"""A slice of a split, such as `train[:10%]`, as bounds of each file: resolved once, before reading.

Parquet and Arrow files say how many rows they have; other files are read through once to count, no further
than the slice's end if that is given in records. Held in memory: a count per file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from krill.corpus.formats import CorpusFile, Format
from krill.corpus.opening import Openers
from krill.corpus.splits import Split
from krill.errors import InputError


def sliced(files: Sequence[CorpusFile], split: Split, openers: Openers) -> list[CorpusFile]:
    """The files of a source that have records in the slice, bounded to them."""
    if split.needs_total:
        counts = [openers.count(file) for file in files]
        first, end = split.bounds(sum(counts))
    else:
        counts = []
        first, end = split.start or 0, split.stop or 0
    wanted = []
    passed = 0
    for index, file in enumerate(files):
        if passed >= end:
            break
        # The hub may not know; there is but one such file in a source, so the slice is its own bound.
        unknown = file.format is Format.HUB and not counts
        count = end if unknown else counts[index] if counts else openers.count(file)
        start, stop = max(first - passed, 0), min(end - passed, count)
        if start < stop:
            whole = stop == count and not unknown
            wanted.append(
                replace(
                    file,
                    start=openers.locate(file, start) if start else 0,
                    stop=None if whole else openers.locate(file, stop),
                )
            )
        passed += count
    if not wanted:
        source = files[0].source
        raise InputError(
            f"the split `{source.split}` of `{source.path}` has no records",
            hint="give `split:` a start below its end and below the number of records",
        )
    return wanted
