"""Control characters: those that show nothing are removed from documents.

In: cleaned documents. Out: the same without C0 control characters (tabs, line ends and form feeds stay), DEL,
deprecated Arabic controls (U+206A to U+206F), byte order marks, marks of interlinear annotation and the
object replacement character. Held in memory: the texts once more. The reference is ftfy's
`remove_control_chars`.

Noted: `control_chars_removed` is documents that had some.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from krill import _native
from krill.corpus.buffers import text_buffers, text_column
from krill.corpus.documents import Documents
from krill.text.point_sets import point_set
from krill.text.step import with_texts

CONTROL_CHARS: Final = (
    *range(0x09),
    0x0B,
    *range(0x0E, 0x20),
    0x7F,
    *range(0x206A, 0x2070),
    0xFEFF,
    *range(0xFFF9, 0xFFFD),
)


@dataclass(frozen=True, slots=True)
class WithoutControlChars:
    """Removes `CONTROL_CHARS`."""

    _points: bytes = field(init=False, repr=False, default_factory=lambda: point_set(CONTROL_CHARS))

    def apply(self, documents: Documents) -> Documents:
        offsets, data = text_buffers(documents.batch.column("text"))
        starts, texts, removed = _native.remove_points(offsets, data, self._points)
        changed = int(np.count_nonzero(removed))
        if not changed:
            return documents
        return with_texts(documents, text_column(starts, texts), "control_chars_removed", changed)
