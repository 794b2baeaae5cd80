"""Examples: a few documents for each reason for a drop, as `examples.jsonl` beside the manifest.

In: what the records of earlier stages hold of documents that they dropped. Out: one JSON object a line,
sorted by stage, reason and hash. Held in memory: the examples, 2 kB of text each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import orjson

from krill.corpus.documents import file_and_offset
from krill.engines import Stage, StageReport
from krill.pipeline.context import Context
from krill.pipeline.examples import EXAMPLES, Example, ExampleSet
from krill.pipeline.stages.base import PipelineStage
from krill.storage.atomic import write_bytes

EXAMPLES_FILE: Final = "examples.jsonl"


class Examples(PipelineStage):
    """Gathers what `reading` stages dropped while they read, in one task."""

    def __init__(self, context: Context, reading: Sequence[Stage]) -> None:
        super().__init__(context, EXAMPLES)
        self._reading = reading

    def tasks(self) -> Iterable[int]:
        return [0]

    def run(self, tasks: Iterable[Any]) -> None:
        for task in tasks:
            content = b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in self._lines())
            path = self.context.folder.dataset / EXAMPLES_FILE
            write_bytes(path, content)
            facts = {"file": EXAMPLES_FILE, "rows": content.count(b"\n"), "bytes": len(content)}
            self.log.commit(task, {**facts, "sha256": hashlib.sha256(content).hexdigest()}, [path])

    def finish(self) -> StageReport:
        written = self.log.record(0)
        return StageReport(bytes=written["bytes"], documents=written["rows"], outputs={EXAMPLES: written})

    def describe(self, tasks: Sequence[Any]) -> str:
        return self.name

    def _lines(self) -> Iterator[dict[str, Any]]:
        for stage in sorted(self._reading, key=lambda stage: stage.name):
            found = ExampleSet()
            for _, record in stage.log:
                found.add_all(record.get(EXAMPLES, {}))
            for reason, examples in found.to_json().items():
                for example in examples:
                    yield {"stage": stage.name, "reason": reason, **self._described(Example(*example))}

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
