"""Files of which large parts were never written: what an incomplete download leaves, or `truncate`.

Comes in: a local file. Goes out: an InputError that names the file and the hole, before anything searches its
zeros for a line end. Only the file system is asked, nothing is read: a few microseconds a file, and none for
files that are too small to have such a hole.
"""

from __future__ import annotations

import errno
import os

from krill.budget import format_size
from krill.corpus.formats import COLUMNAR, CorpusFile
from krill.corpus.streams import input_errors
from krill.errors import InputError

LARGEST_HOLE = 10 * 10**9
"""Bytes of zeros in a row that are read as they are; nobody has as many in a text."""

# Stretches of data that are looked at: files have few, unless they were written at random.
_MOST_STRETCHES = 1000


def refuse_holes(file: CorpusFile) -> None:
    """An InputError if more than `LARGEST_HOLE` in a row of a local file was never written.

    Other formats than text, JSON and CSV, and compressed files, are damaged by a hole and say so themselves.
    """
    size = file.bytes
    if file.remote or size <= LARGEST_HOLE or not hasattr(os, "SEEK_DATA"):
        return
    if file.format in COLUMNAR or file.compression is not None:
        return
    with input_errors(file):
        descriptor = os.open(file.location, os.O_RDONLY)
        try:
            start = _large_hole(descriptor, size)
        finally:
            os.close(descriptor)
    if start is not None:
        raise InputError(
            f"`{file.path}` has {format_size(size)}, but from byte {start:,} on more than"
            f" {format_size(LARGEST_HOLE)} in a row were never written: the file has a hole",
            hint="get the file again, its copy or download is not complete; if zeros are meant, write them by"
            " `cp --sparse=never`",
        )


def _large_hole(descriptor: int, size: int) -> int | None:
    """Where the first hole that is too large begins."""
    hole = 0
    for _ in range(_MOST_STRETCHES):
        try:
            data = os.lseek(descriptor, hole, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:  # a file system that does not tell
                return None
            data = size  # nothing but a hole
        if data - hole > LARGEST_HOLE:
            return hole
        if data >= size:
            return None
        hole = os.lseek(descriptor, data, os.SEEK_HOLE)
    return None
