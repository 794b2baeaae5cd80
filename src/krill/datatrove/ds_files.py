"""A folder of `.ds` files as the token files that packing reads.

In: `.ds` files with their indexes, in the order of their names. Out: `TokenFiles` over the `.ds` files
themselves, and beside them in a folder of our own the length of each document, empty ones left out. Held in
memory: 128 KB of an index, and 40 bytes for each file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from krill.dataset.export.token_files import (
    END_DTYPE,
    INDEX_SUFFIX,
    TOKENS_SUFFIX,
    check_ds_metadata,
    ds_token_bytes,
)
from krill.errors import InputError
from krill.pack import TokenFiles
from krill.storage.atomic import atomic_writer
from krill.storage.input_file import open_regular
from krill.storage.outputs import ListedFiles

_AT_ONCE: Final = 1 << 14
_LONGEST: Final = 2**32 - 1


@dataclass(frozen=True, slots=True)
class DsFiles:
    """The files, and what identifies them: sizes and indexes."""

    paths: tuple[Path, ...]
    dtype: str
    inputs: tuple[dict[str, Any], ...]

    @classmethod
    def find(cls, folder: Path) -> DsFiles:
        """All `.ds` files of a folder; refuses those that don't belong together."""
        paths = tuple(sorted(folder.glob(f"*{TOKENS_SUFFIX}")))
        if not paths:
            raise InputError(f"no `.ds` file in `{folder}`", hint="run `Tokenize` into it first")
        inputs, widths = [], set()
        for path in paths:
            digest = hashlib.sha256()
            tokens = 0
            for ends in _ends(path):
                digest.update(ends.tobytes())
                tokens = int(ends[-1])
            size = path.stat().st_size
            width = ds_token_bytes(path, size, tokens)
            check_ds_metadata(path, tokens, width)
            widths.add(width)
            inputs.append({"path": str(path), "bytes": size, "tokens": tokens, "index": digest.hexdigest()})
        widths.discard(0)
        if len(widths) > 1:
            raise InputError(f"`{folder}` has files of tokens of 2 and of 4 bytes", hint="pack them apart")
        return cls(paths, "uint32" if widths == {4} else "uint16", tuple(inputs))

    def check(self) -> None:
        """Refuse files that `krill export` wrote, and that are not what it wrote."""
        listed = ListedFiles()
        for path in self.paths:
            listed.check(f"{path}{INDEX_SUFFIX}")
            listed.check(str(path))

    def token_files(self, folder: Path) -> TokenFiles:
        """What packing reads; the lengths of documents are written to `folder`."""
        counts = [
            _write_lengths(path, folder / f"{number}.lengths") for number, path in enumerate(self.paths)
        ]

        def file_of(number: int, name: str) -> Path:
            return self.paths[number] if name == "tokens" else folder / f"{number}.{name}"

        return TokenFiles(
            file_of,
            np.arange(len(self.paths), dtype=np.uint64),
            np.array([entry["tokens"] for entry in self.inputs], np.int64),
            np.array(counts, np.int64),
        )


def _write_lengths(path: Path, to: Path) -> int:
    """The number of documents that are not empty."""
    documents = begin = 0
    with atomic_writer(to) as file:
        for ends in _ends(path):
            lengths = np.diff(ends, prepend=begin)
            begin = int(ends[-1])
            if lengths.min() < 0 or lengths.max() > _LONGEST:
                raise InputError(
                    f"`{path}{INDEX_SUFFIX}` is not an index of documents", hint="write it again"
                )
            lengths = lengths[lengths > 0]
            file.write(lengths.astype("<u4").data)
            documents += len(lengths)
    return documents


def _ends(path: Path) -> Iterator[NDArray[np.int64]]:
    index = Path(f"{path}{INDEX_SUFFIX}")
    try:
        with open_regular(index) as file:
            while content := file.read(_AT_ONCE * 8):
                if len(content) % 8:
                    raise InputError(f"`{index}` is not whole numbers of 8 bytes", hint="write it again")
                yield np.frombuffer(content, END_DTYPE).astype(np.int64)
    except OSError as error:
        raise InputError(
            f"can't read `{index}`: {error.strerror}", hint="write the `.ds` files with `save_index=True`"
        ) from None
