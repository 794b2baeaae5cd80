"""What extracting the text of web pages asks of the plan: libraries, and what they hold of pages.

All of it is watched, for it is held by libraries; that no page takes more is what their limits are for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from krill.budget import Kind, Need
from krill.config import DatasetConfig, KrillConfig
from krill.text.extract import LARGE_PAGE
from krill.text.extractors import limits_of

MB: Final = 10**6
EXTRACTING: Final = "pages being extracted"
PROCESSES: Final = "worker processes"
# Resiliparse: 6 MB once it was loaded and had met 300 pages; the rest is for what threads leave, of which
# less is expected. Trafilatura with all that it imports: 36 MB, and 47 after 300 pages.
_RESILIPARSE: Final = 14 * MB
_EXPECTED_RESILIPARSE: Final = 8 * MB
_TRAFILATURA: Final = 56 * MB
# A process with Trafilatura: 92 MB once it has met 200 pages of up to 60 kB.
_PROGRAM: Final = 95 * MB
_EXPECTED_PROCESS: Final = 92 * MB
_USUAL_PAGE: Final = 3 * MB
# Pages that are extracted before such a process has started.
FEW_PAGES: Final = MB


def page_needs(config: KrillConfig, threads: int, processes: int, seen: int) -> Iterator[Need]:
    """What extraction holds: the largest page of all threads, and a large one of each other. So many bytes
    were held for the largest page that was `seen` in a sample of the input."""
    fast = [dataset for dataset in config.datasets if not dataset.extract.holds_lock]
    slow = [dataset for dataset in config.datasets if dataset.extract.holds_lock]
    trafilatura = _TRAFILATURA if slow and not processes else 0
    here = [*fast, *([] if processes else slow)]
    largest = max(map(most_held, here), default=0)
    others = (threads - 1) * min(LARGE_PAGE, max(map(most_held, fast), default=0))
    most = _RESILIPARSE + trafilatura + largest + others
    usual = seen if _USUAL_PAGE < seen <= LARGE_PAGE else _USUAL_PAGE
    likely = _EXPECTED_RESILIPARSE + trafilatura + max(usual, seen) + (threads - 1) * usual
    yield Need(
        EXTRACTING,
        most,
        Kind.WATCHED,
        expected=min(likely, most),
        remedy="set extract.max_page_bytes lower",
    )
    if processes:
        each = extracting_process_bytes(config) * processes
        expected = min(each, _EXPECTED_PROCESS * processes)
        yield Need(PROCESSES, each, Kind.WATCHED, expected=expected, remedy="use --threads 1")


def extracting_process_bytes(config: KrillConfig) -> int:
    """What a process that extracts pages may hold."""
    return _PROGRAM + max((most_held(each) for each in config.datasets if each.extract.holds_lock), default=0)


def most_held(dataset: DatasetConfig) -> int:
    """What a library holds for a page of this source, at the most."""
    return limits_of(dataset.extract).held_at_most(dataset.extract.max_page_bytes)
