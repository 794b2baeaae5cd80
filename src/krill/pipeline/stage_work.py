"""The work of every stage, by parts: the same code whether this process does all of it or many do some each.

In: a `Context`, and what earlier stages have committed. Out: what a stage makes of the parts that it is
given, committed. A part is what JSON can say: a start of the input, a unit's position, a shard. Held in
memory: what the stage holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from krill.corpus import Corpus, Start, Unit
from krill.corpus.documents import OFFSET_BITS
from krill.errors import KrillError
from krill.pipeline.context import Context
from krill.pipeline.dedup_needs import minhash_of
from krill.pipeline.kept import KeptUnits
from krill.pipeline.needs import scans, spills_text
from krill.pipeline.resolve import resolve
from krill.pipeline.scan import Wanted, scan
from krill.pipeline.shared_resolve import PHASES, PLAN, Phases, decide
from krill.pipeline.text_output import TextShard, write_rejected, write_text
from krill.pipeline.token_work import TokenWork
from krill.pipeline.trim import trim
from krill.storage import CommitLog
from krill.tokenizer import Encoder


class Parts(Protocol):
    """Parts of a stage: what JSON can say, and how many."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Any]: ...


class Starts:
    """The starts of a corpus as parts; made when they are asked for, as there may be very many."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._count = sum(1 for _ in corpus.starts())

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (start.to_json() for start in self._corpus.starts())


class StageWork:
    """One run's work; `units` are those of the input that are wanted, where they are not all."""

    def __init__(
        self,
        context: Context,
        *,
        against: Corpus | None = None,
        encoder: Encoder | None = None,
        units: Iterable[Unit] | None = None,
    ) -> None:
        self._context = context
        self._against = against
        self.prior: Sequence[Path] = ()
        self._given = units
        self._unscanned: KeptUnits | None = None
        self.tokens = None if encoder is None else TokenWork(context, encoder)
        self._stages: Mapping[str, Callable[[Sequence[Any]], None]] = {
            "resolve": self._resolve,
            "trim": self._trim,
            "text": self._text,
            "encode": self._encode,
            "windows": lambda parts: self._token_work.count_windows(parts),
            "pack": lambda parts: self._token_work.write_rows("pack", parts),
            "shuffle": lambda parts: self._token_work.write_rows("shuffle", parts),
            "rejected": self._rejected,
            PLAN: self._resolve_plan,
            **{phase: partial(self._resolve_phase, phase) for phase in PHASES},
        }

    def do(self, stage: str, parts: Parts) -> None:
        """Do these parts of a stage."""
        if stage == "scan":
            self._scan(parts)
        elif stage == "against":
            self._scan_against(parts)
        else:
            self._stages[stage](list(parts))

    def missing(self, stage: str, parts: Iterable[Any]) -> Iterator[Any]:
        """Those of the parts that are not committed, as they are asked for."""
        done = self._done(stage)
        return (part for part in parts if not done(part))

    def _done(self, stage: str) -> Callable[[Any], bool]:
        """Whether a part of a stage is committed now."""
        if stage == "windows":
            streams = [self.log(f"{stage}-{number}") for number in range(self._token_work.streams)]
            return lambda part: part[1] in streams[part[0]]
        if stage in ("pack", "shuffle"):
            splits = self._token_work.recipe.splits
            written = [self._token_work.log(stage, split) for split in splits]
            return lambda part: part[1] in written[part[0]]
        log = self.log(stage)
        if stage in ("scan", "against"):
            ended = self.log(f"{stage}-runs")
            return lambda part: part["position"] in (log if part["unit"] is not None else ended)
        if stage in ("text", "rejected"):
            return lambda part: part[0] in log
        if stage in ("resolve", PLAN):
            return lambda _: 0 in log
        return lambda part: part in log

    def dataset_of(self, position: int) -> int:
        """The source that a unit is of."""
        return self._context.corpus.files[position >> OFFSET_BITS].dataset

    def log(self, stage: str) -> CommitLog:
        """What a stage has committed."""
        return self._context.log(stage)

    @property
    def scans(self) -> bool:
        """Whether documents are read once before those that are kept are read for good."""
        return scans(self._context.config, self._context.corpus)

    @property
    def trims(self) -> bool:
        """Whether lines or paragraphs are taken out of documents."""
        dedup = self._context.config.preprocess.dedup
        return dedup.method != "none" and dedup.level != "document"

    def scanned_units(self) -> KeptUnits:
        """All units, with the documents that pass the steps."""
        corpus, steps = self._context.corpus, self._context.steps
        if self.scans:
            return KeptUnits(corpus, steps, self.log("scan"))
        if self._unscanned is None:
            self._unscanned = KeptUnits(corpus, steps, None, units=self._given)
        return self._unscanned

    def kept_units(self) -> tuple[KeptUnits, CommitLog | None]:
        """What is left of them after deduplication, and the log that counts it, if one does."""
        corpus, steps = self._context.corpus, self._context.steps
        dedup = self._context.config.preprocess.dedup
        if not self.scans or dedup.method == "none":
            return self.scanned_units(), self.log("scan") if self.scans else None
        if self.trims:
            trimmed = self.log("trim")
            return KeptUnits(corpus, steps, trimmed), trimmed
        scanned = self.log("scan")
        clusters = dedup.method == "minhash" and dedup.clusters
        return KeptUnits(corpus, steps, scanned, self.resolved, clusters=clusters), scanned

    @property
    def prior_names(self) -> list[str]:
        """The files of what was seen before, as the part of a task."""
        return [self._context.task_path(path) for path in self.prior]

    @property
    def resolved(self) -> CommitLog:
        """Where the keep bits of units are."""
        return self.log("resolve")

    @property
    def _token_work(self) -> TokenWork:
        if self.tokens is None:
            raise KrillError("there is no tokenizer for this stage")
        return self.tokens

    def _wanted(self, *, spill: bool, rejected: bool, positions: bool = False) -> Wanted:
        dedup = self._context.config.preprocess.dedup
        hashes = dedup.level if dedup.method in ("exact", "bloom") else None
        return Wanted(hashes, minhash_of(dedup), spill, rejected, positions)

    def _scan(self, parts: Parts) -> None:
        config = self._context.config
        wanted = self._wanted(
            spill=spills_text(config, self._context.corpus),
            rejected=config.preprocess.rejected,
            positions=config.preprocess.dedup.index != "files",
        )
        self._scan_parts("scan", self._context.corpus, wanted, parts)

    def _scan_against(self, parts: Parts) -> None:
        assert self._against is not None
        wanted = self._wanted(spill=False, rejected=False)
        self._scan_parts("against", self._against, wanted, parts)

    def _scan_parts(self, stage: str, corpus: Corpus, wanted: Wanted, parts: Iterable[Any]) -> None:
        runs: list[int] = []

        def starts() -> Iterator[Start]:
            for start in map(Start.from_json, parts):
                if start.unit is None:
                    runs.append(start.position)
                yield start

        scan(self._context, corpus, self.log(stage), wanted, starts())
        ended = self.log(f"{stage}-runs")
        for position in runs:  # the units of a run of files are only known once they were read
            if position not in ended:
                ended.commit(position, {})

    def _resolve_plan(self, parts: Sequence[Any]) -> None:
        workers, prior = parts[0]
        decide(self._context, self.log("scan"), [self._context.path_of(name) for name in prior], workers)

    def _resolve_phase(self, phase: str, parts: Sequence[Any]) -> None:
        Phases.read(self._context).do(phase, parts)

    def _resolve(self, parts: Sequence[Any]) -> None:
        prior = [self._context.path_of(name) for name in parts[0]]
        resolve(self._context, self.log("scan"), self.log("resolve"), prior, self.scanned_units())

    def _trim(self, parts: Sequence[Any]) -> None:
        level = self._context.config.preprocess.dedup.level
        assert level != "document"
        units = self.scanned_units()
        trim(self._context, self.log("scan"), units, self.resolved, self.log("trim"), level, parts)

    def _text(self, parts: Sequence[Any]) -> None:
        units, _ = self.kept_units()
        write_text(self._context, self.log("text"), units, _shards(parts))

    def _encode(self, parts: Sequence[Any]) -> None:
        units, _ = self.kept_units()
        self._token_work.encode(units, parts)

    def _rejected(self, parts: Sequence[Any]) -> None:
        units, _ = self.kept_units()
        dropped_by = [self.scanned_units(), units] if self.trims else [units]
        encoded = None if self.tokens is None else self.log("encode")
        write_rejected(self._context, self.log("rejected"), dropped_by, encoded, _shards(parts))


def _shards(parts: Sequence[Any]) -> list[TextShard]:
    return [TextShard.from_json(part) for part in parts]
