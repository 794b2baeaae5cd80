"""What each stage of preprocessing asks of the plan.

The costs are measured: what a stage holds at its peak for each block in flight, as a part that grows with
`Block.nbytes` (the input and the batch parsed from it) and a part that doesn't (the heap's own unevenness).
Measured with one and two threads on 50 MB and 500 MB of real JSON lines, and with one line of 200 MB;
`tests/memory` fails when a prediction is off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from krill.budget import Kind, Meter, Need, Plan
from krill.config import KrillConfig
from krill.corpus import Corpus
from krill.corpus.corpus import LARGE_PIECE
from krill.corpus.documents import BLOCKS_PER_UNIT
from krill.corpus.formats import Format
from krill.corpus.long_records import NO_LONG_RECORDS, LongRecords
from krill.pipeline.page_needs import FEW_PAGES, PROCESSES, extracting_process_bytes, page_needs
from krill.storage.object_store import PART_BYTES, is_object_url
from krill.text.build import HELD_ALWAYS, step_needs
from krill.text.user_step import Function

MB: Final = 10**6
# What reading holds besides the block, at the most and usually: buffers on the way, and what the sample of
# the input has left. Then what is expected on top, at least, for each byte of text, and at the most: of
# Parquet, whose pages leave gaps in the heap; of decoders, and of text kept for the stages after the scan.
# Arrow files are mapped: so much for each byte, and at the most; beside a row longer than a block, less.
READING: Final = 9 * MB
USUAL_READING: Final = 4 * MB
EACH_THREAD: Final = 3 * MB // 2
# Of little text, less of that is expected: it grows with what a thread has read, as its heap does.
EXPECTED_EACH_THREAD: Final = (MB * 2 // 5, 0.005)
EXPECTED_READING: Final = {
    Format.PARQUET: (9 * MB, 0.2, 27 * MB),
    Format.JSON_ARRAY: (0, 0.02, 6 * MB),
    Format.TEXT: (0, 0.15, 8 * MB),
    Format.CSV: (0, 0.02, 5 * MB),
    Format.TSV: (0, 0.02, 5 * MB),
}
EXPECTED_DECODING: Final = (5 * MB, 0.1, 11 * MB)
EXPECTED_MAPPED: Final = (0.4, 16 * MB)
EXPECTED_BESIDE_LONG: Final = (0.18, 9 * MB)
# Freed memory between blocks in use, which only a trim gives back: it grows over the 128 MB between two of
# them. Near the limit it is trimmed more often.
HEAP_SLACK: Final = 10 * MB
USUAL_SLACK: Final = 7 * MB
LEAST_SLACK: Final = 2 * MB
# What many long documents leave of it, unless they are where the file is mapped.
FROM_LONG: Final = 2 * MB
# S3's own file system at its first request, and an object of 150 MB being sent; then what a thread fetches.
OBJECT_STORE: Final = 40 * MB
FETCHED: Final = 2 * PART_BYTES
# Each of very many files, besides its place in the table of files: its part of a unit, and of the unit's
# record; then as an object and as text while the manifest is written. Measured with 50,000.
FEW_FILES: Final = 1000
FILE_BYTES: Final = 300
LISTED_FILE_BYTES: Final = 1200
FEWER_FILES: Final = "join small files"
# Each of very many columns, for each block in flight: its array and what Arrow writes it with. Measured with
# 1,000 and 10,000 columns of JSON lines.
FEW_COLUMNS: Final = 100
COLUMN_BYTES: Final = 2500
EXPECTED_COLUMN_BYTES: Final = 4000
# A row of conversations as Python objects, which one thread at a time renders: characters beyond the basic
# plane make four bytes of each. Measured with rows of a megabyte, of 4 and of 18,000 messages, above the
# blocks.
RENDERING: Final = "conversations being rendered"
RENDERED_PER_BYTE: Final = 16
PARSED_PER_BYTE: Final = 8
EXPECTED_RENDERING: Final = 3 * MB
# Of a row longer than a block, on top of that: of 4 MB of messages of a word each.
EXPECTED_LONG_ROW: Final = 15
# Of a byte of rendered text, half of what the block keeps between the stages: itself, and compressed.
KEPT_PER_BYTE: Final = 0.65
# On top of that, what is on its way to a process that renders and back.
EXPECTED_ON_THE_WAY: Final = 2 * MB
# A process that renders: Python and Jinja, then what a row takes, and a block with its renderings. Input of a
# few blocks is rendered before such a process has started.
RENDERING_PROGRAM: Final = 30 * MB
RENDERED_BLOCK_PER_BYTE: Final = 4
EXPECTED_PROCESS: Final = 38 * MB
FEW_ROWS: Final = 8 * MB
SMALLER_DOCUMENTS: Final = (
    "set preprocess.max_document_bytes lower (the longest document is held several times)"
)


@dataclass(frozen=True, slots=True)
class InputSizes:
    """What is known of the input: its decoded bytes, and what the corpus must hold at once besides blocks, a
    large Parquet page or Arrow batch or a decoder's window; how many files there are, and columns carried
    along; after some of it was sampled, `Block.nbytes` of the largest block and the tokens of a byte."""

    text_bytes: int
    held: Need | None = None
    files: int = 1
    columns: int = 0
    reading: int = 0
    mapped: int = 0
    each_batch: int = 0
    block_bytes: int | None = None
    """`Block.nbytes` of the largest block of usual size that was seen."""
    tokens_per_byte: float = 1.0
    made_per_byte: float = 1.0
    """Bytes of text that a byte of input gives, at least one: of conversations that are rendered often."""
    long: LongRecords = NO_LONG_RECORDS
    """Those above usual blocks, as far as they were found."""
    largest_page: int = 0
    """Of web pages, before their text is extracted; 0 if there are none."""
    held_for_page: int = 0
    """While the largest page that was seen is extracted."""


def sizes_of(corpus: Corpus) -> InputSizes:
    """What is known before any of it is read."""
    text_bytes = sum(file.decoded_bytes for file in corpus.files)
    formats = {(file.format, file.compression) for file in corpus.files}
    found = [EXPECTED_READING[format] for format, _ in formats if format in EXPECTED_READING]
    if any(compression is not None for _, compression in formats):
        found.append(EXPECTED_DECODING)
    reading = max((min(most, least + int(rate * text_bytes)) for least, rate, most in found), default=0)
    mapped = 0
    if any(kind is Format.ARROW for kind, _ in formats):
        rate, most = EXPECTED_BESIDE_LONG if corpus.longest_mapped else EXPECTED_MAPPED
        mapped = min(int(rate * text_bytes), most) + corpus.longest_mapped
    return InputSizes(
        text_bytes,
        corpus.held_need(),
        len(corpus.files),
        corpus.columns,
        reading,
        mapped,
        corpus.each_batch_bytes,
        largest_page=corpus.largest_page,
    )


def input_needs(sizes: InputSizes, threads: int) -> Iterator[Need]:
    """What the input makes a run hold besides its blocks."""
    if sizes.held is not None:
        # Two threads have one piece of it at a time, and the gaps in the heap that those before have left.
        few = threads <= 2 and sizes.held.minimum < LARGE_PIECE and sizes.held.expected is not None
        yield replace(sizes.held, expected=4 * sizes.held.minimum // 3) if few else sizes.held
    if sizes.each_batch:
        # Those being read, and those gathered for a row group of text.
        held = sizes.each_batch * (threads + 3)
        yield Need("dictionaries of Arrow batches", held, remedy="write the Arrow file without dictionaries")
    if sizes.files > FEW_FILES:
        yield Need(f"{sizes.files:,} files", FILE_BYTES * sizes.files, remedy=FEWER_FILES)
        listed = LISTED_FILE_BYTES * sizes.files
        yield Need("the list of files in the manifest", listed, during="manifest", remedy=FEWER_FILES)
    if sizes.columns > FEW_COLUMNS:
        wide = sizes.columns * (threads + 2)
        least, most, fewer = COLUMN_BYTES * wide, EXPECTED_COLUMN_BYTES * wide, "name fewer `columns:`"
        for during, name in (("scan", "columns"), ("text", "columns being written")):
            name = f"{sizes.columns:,} {name}"
            yield Need(name, least, useful=most, expected=most, during=during, remedy=fewer)


def block_nbytes(config: KrillConfig) -> int:
    """What `Block.nbytes` says of a full block: its input and the batch parsed from it."""
    return 2 * config.preprocess.unit_bytes // BLOCKS_PER_UNIT


def largest_nbytes(config: KrillConfig) -> int:
    """The same of any block: a document of the largest size passes through whole, alone if need be."""
    return max(block_nbytes(config), 2 * config.preprocess.max_document_bytes)


@dataclass(frozen=True, slots=True)
class Sizing:
    """What a stage's needs follow from: the config, the threads and, once they are known, the sizes of the
    input. Steps are `made` already, unless nothing is known of the input."""

    config: KrillConfig
    threads: int
    sizes: InputSizes | None = None
    own_steps: Sequence[Function] = ()
    made: bool = False
    processes: int = 0
    """How many processes render conversations or extract pages; 0: this one does."""

    @property
    def text_bytes(self) -> int:
        """Of the input; where that is not known, more than any has."""
        return 2**62 if self.sizes is None else self.sizes.text_bytes

    @property
    def tokens_per_byte(self) -> float:
        return 1.0 if self.sizes is None else self.sizes.tokens_per_byte

    def unfolded(self, nbytes: int) -> int:
        """The `nbytes` that a block of conversations has as the scan keeps it, if that is more."""
        if self.sizes is None or not self.config.is_chat:
            return nbytes
        return max(nbytes, int(KEPT_PER_BYTE * self.sizes.made_per_byte * nbytes))

    @property
    def largest(self) -> int:
        """`Block.nbytes` of the largest block."""
        page = 0 if self.sizes is None else self.sizes.largest_page
        return max(largest_nbytes(self.config), 2 * page)

    @property
    def block(self) -> int:
        """`Block.nbytes` of most blocks, as far as that is known."""
        known = None if self.sizes is None else self.sizes.block_bytes
        return block_nbytes(self.config) if known is None else known

    @property
    def long(self) -> LongRecords:
        """Records that are longer than most blocks, as many as may be in work at once."""
        if self.sizes is None or not self.sizes.long.longest:
            return NO_LONG_RECORDS
        long = self.sizes.long
        usual = max(self.block, block_nbytes(self.config)) * (self.threads + 1)
        return replace(long, together=min(long.together, max(1, usual // (2 * long.longest))))

    @property
    def long_row(self) -> int:
        """Bytes of the longest record that is known to be above a block, also if most are; 0 if none is."""
        most = self.block // 2 if self.block > block_nbytes(self.config) * 3 // 2 else 0
        return max(self.long.longest, most)

    @property
    def in_flight(self) -> int:
        """Blocks in work: one for each thread, and the next one; of little input, few are there at once."""
        return min(self.threads + 1, max(1, -(-self.text_bytes // self.block)))

    @property
    def being_read(self) -> int:
        """`Block.nbytes` of the block that is read beside those in work: a single long record is read beside
        usual ones, and beside it another."""
        if self.sizes is not None and self.sizes.long.together == 1:
            read = max(self.block, self.long.longest)
        else:
            read = max(self.block, 2 * self.long.longest)
        if self.sizes is not None and self.sizes.largest_page:
            return read
        in_work = self.threads * max(self.block // 2, self.long.longest)  # of little text, that is all
        return min(read, 2 * max(0, self.text_bytes - in_work))

    def blocks_in_flight(
        self,
        name: str,
        stage: str,
        cost: Callable[[int], int],
        expected: Callable[[int], int],
        waiting: Callable[[int], int] | None = None,
    ) -> Need:
        """Blocks in work; what one holds at the most, and is expected to, follows from its `nbytes`; of long
        ones that are done sooner than the next is read, all but one hold what one does that is `waiting`.

        There are as many as threads and one more, of usual blocks; of longer records so many as fit into what
        those would hold, though always one: that a few documents are long makes a run hold little more.
        """
        sampled = self.sizes is not None and self.sizes.block_bytes is not None
        usual = max(self.block, block_nbytes(self.config)) if sampled else self.largest
        # Each process has a block of its own.
        least = self.processes if self.processes and stage in step_stages(self.config) else 1
        long, size = self.long, 2 * self.long.longest

        def likely(share: int) -> int:
            small = min(self.in_flight, max(0, -(-(self.text_bytes - long.bytes) // self.block)))
            if not size:
                return expected(self.block) * small
            large = max(1, min(long.together, share // cost(size)))
            room = max(0, share - large * cost(size)) // cost(self.block)
            beside = max(0, min(small, self.threads + 1 - large, room))
            held = expected(size) + (waiting or expected)(size) * (large - 1)
            return max(expected(self.block) * small, held + expected(self.block) * beside)

        return Need(
            name,
            cost(self.largest) * least,
            useful=max(cost(self.largest) * least, cost(usual) * (self.threads + 1)),
            expected=likely,
            during=stage,
            remedy=SMALLER_DOCUMENTS,
        )


def reading_needs(sizing: Sizing) -> Iterator[Need]:
    """What every run holds, whatever its stages are: the input being read, steps, an object store."""
    settings, threads = sizing.config.preprocess, sizing.threads
    reading = 0
    if sizing.sizes is not None:
        reading = max(sizing.sizes.reading, sizing.sizes.mapped)
    held, usual = READING + reading, USUAL_READING + reading
    first, each_byte = EXPECTED_EACH_THREAD
    expected_each = min(EACH_THREAD, max(first, int(each_byte * sizing.text_bytes)))
    yield Need(
        "the block being read",
        sizing.largest + READING,
        useful=sizing.largest + held + EACH_THREAD * (threads - 1),
        expected=sizing.being_read + usual + expected_each * (threads - 1),
        remedy=SMALLER_DOCUMENTS,
    )
    gaps = 0
    if sizing.sizes is None or not sizing.sizes.mapped:
        # Those that others have left, too small for it, and its own.
        gaps = sizing.long.longest // 2 + min(FROM_LONG, sizing.long.bytes // 8)
    left = sizing.text_bytes // 3 if sizing.config.is_chat else min(USUAL_SLACK, sizing.text_bytes // 16)
    yield Need(
        "freed memory that is used again",
        LEAST_SLACK,
        Kind.WATCHED,
        useful=HEAP_SLACK + FROM_LONG,
        expected=min(HEAP_SLACK + FROM_LONG, gaps + left),
    )
    if sizing.sizes is not None:
        yield from input_needs(sizing.sizes, threads)
    if is_object_url(settings.prepared_path):
        yield Need("the object store", OBJECT_STORE + FETCHED * threads, Kind.WATCHED)
    steps = step_needs(settings, threads, sizing.own_steps, made=sizing.made, long=sizing.long)
    if sizing.config.is_chat:
        longest = settings.max_document_bytes * (RENDERED_PER_BYTE + PARSED_PER_BYTE * (threads - 1))
        row = EXPECTED_LONG_ROW * sizing.long_row
        expected = EXPECTED_RENDERING * threads + EXPECTED_ON_THE_WAY * sizing.processes
        expected += 0 if sizing.processes else row
        steps.append(Need(RENDERING, longest, Kind.WATCHED, expected=expected, remedy=SMALLER_DOCUMENTS))
        if sizing.processes:
            each = rendering_process_bytes(sizing.config) * sizing.processes
            likely = (EXPECTED_PROCESS + row) * sizing.processes
            steps.append(Need(PROCESSES, each, Kind.WATCHED, expected=likely))
    if sizing.sizes is not None and sizing.sizes.largest_page:
        steps += page_needs(sizing.config, threads, sizing.processes, sizing.sizes.held_for_page)
    yield from _step_needs(sizing.config, steps)


def _step_needs(config: KrillConfig, needs: Sequence[Need]) -> Iterator[Need]:
    """What the steps hold, in the stages that run them."""
    stages = step_stages(config)
    for need in needs:
        if need.during == "always" and need.name not in HELD_ALWAYS:
            yield from (replace(need, during=stage) for stage in stages)
        else:
            yield need


def step_stages(config: KrillConfig) -> list[str]:
    """The stages that run the steps: the scan, and later ones if it keeps no survivors."""
    settings = config.preprocess
    if settings.dedup.method == "none" and not settings.rejected and settings.output != "both":
        return ["scan", "text" if settings.output == "text" else "encode"]
    return ["scan"]


def process_bytes(config: KrillConfig) -> int:
    """What each worker process may hold."""
    return rendering_process_bytes(config) if config.is_chat else extracting_process_bytes(config)


def rendering_process_bytes(config: KrillConfig) -> int:
    """What a process that renders conversations may hold."""
    longest = RENDERED_PER_BYTE * config.preprocess.max_document_bytes
    return RENDERING_PROGRAM + longest + RENDERED_BLOCK_PER_BYTE * largest_nbytes(config) // 2


def suspect_of(config: KrillConfig) -> str:
    """Of conversations, the template: what it holds while it renders a row is its own affair."""
    if not config.is_chat:
        return ""
    return f"; or the chat template (`{config.chat_template}`) piles up texts while it renders: take another"


def plan_run(
    meter: Meter,
    config: KrillConfig,
    threads: int,
    sizes: InputSizes,
    needs: Callable[[InputSizes, int], Sequence[Need]],
) -> tuple[Plan, int]:
    """The plan of a run, and how many processes render conversations or extract pages in it: one for each
    thread where they fit and there is something for them to do, else none, and this process does it.

    `needs` says what a run with so many processes needs.
    """
    pages = sizes.largest_page > 0 and config.has_slow_pages
    enough = sizes.text_bytes > (FEW_ROWS if config.is_chat else FEW_PAGES)
    processes = threads if (config.is_chat or pages) and threads > 1 and enough else 0
    meter.suspect = suspect_of(config)
    plan = meter.plan(needs(sizes, 0), faster=needs(sizes, processes) if processes else None)
    return plan, processes if plan.has(PROCESSES) else 0


def spills_text(config: KrillConfig, corpus: Corpus) -> bool:
    """Whether the scan keeps the surviving documents: where reading them again would cost more.

    Input that is read in order would have to be decoded again from its beginning; filters would run again,
    conversations be rendered and the text of pages be extracted again.
    """
    made = config.is_chat or corpus.largest_page > 0
    return corpus.sequential or bool(config.preprocess.filters) or made


def unseen_bytes(config: KrillConfig, corpus: Corpus, rest: int) -> int:
    """Of a document in the `rest` that no sample has seen, where only reading finds it: as long as may be, as
    filters hold more beside a long one than a prediction could be wrong by."""
    if rest <= 0 or not corpus.sequential or not config.preprocess.filters or corpus.largest_page:
        return 0
    return min(rest, config.preprocess.max_document_bytes)


def scans(config: KrillConfig, corpus: Corpus) -> bool:
    """Whether documents are read once before those that are kept are read for good."""
    settings = config.preprocess
    made = bool(settings.filters) or config.is_chat or corpus.largest_page > 0
    twice = settings.output == "both" and made
    return settings.dedup.method != "none" or corpus.sequential or settings.rejected or twice
