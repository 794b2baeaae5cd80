"""Examples: a few documents for each reason for a drop, as `examples.jsonl` beside the manifest.

In: what the records of earlier stages hold of documents that they dropped, or where these are; their blocks
are read again. Out: one JSON object a line, sorted by stage, reason and hash, and behind duplicates their
largest clusters. Held in memory: the examples, 2 kB of text each, and the blocks that are read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Final

import orjson

from krill.budget import Need
from krill.corpus.documents import file_and_offset
from krill.engines import Stage, StageReport
from krill.pipeline.context import Context
from krill.pipeline.examples import DROPPED, EXAMPLES, DroppedPlace, Example, ExampleSet, example_at
from krill.pipeline.needs import MB, Sizing
from krill.pipeline.stages.base import PipelineStage, unit_position
from krill.pipeline.stages.dedup import Dedup
from krill.pipeline.stages.encode import Encode
from krill.pipeline.surviving_units import SurvivingUnits
from krill.pipeline.twins import duplicate_places
from krill.storage.atomic import write_bytes

EXAMPLES_FILE: Final = "examples.jsonl"
READING: Final = "blocks being read for examples"


def reading_cost(nbytes: int) -> int:
    """A block as it is read and cleaned, and the examples of all reasons."""
    return 3 * nbytes + 4 * MB


class KeepExamples(PipelineStage):
    """Gathers what each of `stages` dropped, in one task."""

    def __init__(self, context: Context, stages: Sequence[Stage]) -> None:
        super().__init__(context, EXAMPLES)
        self._stages = sorted(stages, key=lambda stage: stage.name)

    @staticmethod
    def needs(sizing: Sizing) -> Iterator[Need]:
        if sizing.config.preprocess.samples:
            yield sizing.blocks_in_flight(READING, EXAMPLES, reading_cost, lambda nbytes: nbytes + MB)

    def tasks(self) -> Iterable[int]:
        return [0]

    def run(self, tasks: Iterable[Any]) -> None:
        for task in tasks:
            lines = (line for stage in self._stages for line in self._lines(stage))
            content = b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines)
            path = self.context.folder.dataset / EXAMPLES_FILE
            write_bytes(path, content)
            facts = {"file": EXAMPLES_FILE, "rows": content.count(b"\n"), "bytes": len(content)}
            self.log.commit(task, {**facts, "sha256": hashlib.sha256(content).hexdigest()}, [path])

    def finish(self) -> StageReport:
        written = self.log.record(0)
        return StageReport(bytes=written["bytes"], documents=written["rows"], outputs={EXAMPLES: written})

    def describe(self, tasks: Sequence[Any]) -> str:
        return self.name

    def _lines(self, stage: Stage) -> Iterator[dict[str, Any]]:
        """What a stage dropped, by reason."""
        if isinstance(stage, Dedup):
            found, kept = self._duplicates(stage)
        else:
            found, kept = self._dropped(stage), {}
        for reason, examples in found.to_json().items():
            for example in examples:
                line = {"stage": stage.name, "reason": reason, **self._described(Example(*example))}
                twin = kept.get(example[0])
                yield line if twin is None else {**line, "kept": self._described(twin)}
        if isinstance(stage, Dedup):
            yield from self._clusters(stage)

    def _clusters(self, dedup: Dedup) -> Iterator[dict[str, Any]]:
        """The largest clusters, with as many documents each as are shown."""
        shown, twins = dedup.shown_clusters(), dedup.twins()
        places = [[twins.place_of(number) for number in numbers] for _, numbers in shown]
        read = self._read(dedup.scan.units(), chain.from_iterable(places))
        for (size, _), (kept, *dropped) in zip(shown, places, strict=True):
            for place in dropped:
                line = {"stage": dedup.name, "reason": "duplicate", **self._described(read[place])}
                yield {**line, "kept": self._described(read[kept]), "cluster": size}

    def _dropped(self, stage: Stage) -> ExampleSet:
        found, places = ExampleSet(), ExampleSet()
        counted = isinstance(stage, Encode) and stage.counted  # reading dropped nothing, or as before
        for _, record in stage.log:
            found.add_all({} if counted else record.get(EXAMPLES, {}))
            places.add_all(record.get(DROPPED, {}))
        if isinstance(stage, Encode):
            chosen = {
                reason: [DroppedPlace(*place) for place in some] for reason, some in places.to_json().items()
            }
            read = self._read(stage.source.units(), [place for some in chosen.values() for place in some])
            for reason, some in chosen.items():
                found.add(reason, (read[place] for place in some))
        return found

    def _duplicates(self, dedup: Dedup) -> tuple[ExampleSet, dict[int, Example]]:
        """Examples of duplicates, and by their hashes the kept documents that they are copies of."""
        found = ExampleSet()
        places = duplicate_places(dedup.scan.log, dedup.log)
        twins = dedup.twins().of(places)
        read = self._read(dedup.scan.units(), [*places, *twins.values()])
        found.add("duplicate", (read[place] for place in places))
        return found, {place.hash: read[twin] for place, twin in twins.items()}

    def _read(self, units: SurvivingUnits, places: Iterable[DroppedPlace]) -> dict[DroppedPlace, Example]:
        """The documents at these places, each unit read once and no further than it must be."""
        wanted: dict[int, dict[int, list[DroppedPlace]]] = {}
        for place in dict.fromkeys(places):
            wanted.setdefault(place.unit, {}).setdefault(place.block, []).append(place)
        found: dict[DroppedPlace, Example] = {}
        for task in units.tasks():  # one by one: each may take a whole page of its file
            blocks = wanted.get(unit_position(task), {})
            for number, block in enumerate(islice(units.blocks(task), max(blocks, default=-1) + 1)):
                self.context.check_wanted()
                if number in blocks:
                    batch, _ = block.read()
                    found |= {place: example_at(batch, place.row, place.hash) for place in blocks[number]}
                del block  # not to be held beside the next
        return found

    def _described(self, example: Example) -> dict[str, Any]:
        ordinal, offset = file_and_offset(example.position)
        file = self.context.corpus.files[ordinal]
        found = {
            "source": self.context.config.datasets[file.dataset].path,
            "file": file.path,
            "position": offset,
            "text": example.text,
            "bytes": example.bytes,
        }
        return found if example.language is None else {**found, "language": example.language}
