"""A job in a folder of its own: documents, a config, and the command that is run on them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from measured import Outcome

# Short rows, so that a handful of documents already fills some.
SEQUENCE_LEN = 64


def document(number: int) -> str:
    """A text of its own for each number, long enough for the default filters."""
    return f"This is document {number}. " * 12


def json_lines(texts: Iterable[Any]) -> bytes:
    """One record a line, with an id."""
    return b"".join(json.dumps({"id": at, "text": text}).encode() + b"\n" for at, text in enumerate(texts))


class Job:
    """A folder with a config for the byte tokenizer; paths in it are relative to the folder."""

    def __init__(self, folder: Path, krill: Callable[..., Outcome]) -> None:
        self.folder = folder
        self.output = folder / "out"
        self.work = folder / ".out.krill"
        self.config: dict[str, Any] = {
            "memory": "256MB",
            "datasets": [{"path": "input.jsonl"}],
            "tokenizer": {"builtin": "bytes"},
            "preprocess": {"prepared_path": "out", "sequence_len": SEQUENCE_LEN},
        }
        self._krill = krill

    def write(self, name: str, content: bytes) -> Path:
        """A file of the folder."""
        path = self.folder / name
        path.write_bytes(content)
        return path

    def read_from(self, *sources: str | Mapping[str, Any]) -> None:
        """Which datasets the config names: paths, or whole entries."""
        self.config["datasets"] = [
            {"path": source} if isinstance(source, str) else dict(source) for source in sources
        ]

    def set(self, **preprocess: Any) -> None:
        """Change keys of `preprocess:`."""
        self.config["preprocess"].update(preprocess)

    def save(self) -> Path:
        """Write the config as it is now."""
        return self.write("config.yaml", yaml.safe_dump(self.config).encode())

    def preprocess(self, *arguments: Any, **options: Any) -> Outcome:
        """Save the config and run `krill preprocess` on it."""
        self.save()
        return self._krill("preprocess", "config.yaml", *arguments, cwd=self.folder, **options)

    def run(self, *arguments: Any, **options: Any) -> Outcome:
        """Run any command in the folder."""
        return self._krill(*arguments, cwd=self.folder, **options)

    def files(self) -> dict[str, bytes | None]:
        """Everything in the folder but the config: names and contents, None for a folder."""
        return {
            str(path.relative_to(self.folder)): path.read_bytes() if path.is_file() else None
            for path in sorted(self.folder.rglob("*"))
            if path.name != "config.yaml" and (path.is_file() or path.is_dir())
        }

    def manifest(self) -> dict[str, Any]:
        """What the finished output says of itself."""
        return json.loads((self.output / "krill-run.json").read_bytes())

    def encoded(self) -> list[str]:
        """The documents that the byte tokenizer's rows hold, each up to its EOS."""
        from krill.dataset import Dataset
        from krill.tokenizer.byte import EOS

        ids = [int(token) for row in Dataset(self.output) for token in row["input_ids"]]
        texts, text = [], bytearray()
        for token in ids:
            if token == EOS:
                texts.append(text.decode())
                text.clear()
            else:
                text.append(token)
        return texts

    def texts(self) -> list[str]:
        """All documents of a text output."""
        return list(self.iter_texts())

    def iter_texts(self) -> Iterator[str]:
        """The same, of which no more than a row group is held."""
        import pyarrow.parquet as pq

        for shard in self.manifest()["text"]["shards"]:
            with pq.ParquetFile(self.output / shard["file"]) as file:
                for group in range(file.num_row_groups):
                    yield from file.read_row_group(group, ["text"])["text"].to_pylist()


def check_refused(job: Job, code: int, *facts: str, hint: str, **options: Any) -> None:
    """`krill preprocess --overwrite` says so and leaves everything as it was."""
    before = job.files()
    outcome = job.preprocess("--overwrite", **options)
    check_error(outcome, code, *facts, hint=hint)
    assert job.files() == before


def check_error(outcome: Any, code: int, *facts: str, hint: str) -> None:
    """The command ended with this code, said these things, and what to do."""
    assert outcome.code == code, outcome.err
    assert "Traceback" not in outcome.out + outcome.err
    error, _, remedy = outcome.err.partition("\nhint: ")
    assert error.startswith("error: ")
    for fact in facts:
        assert fact in error
    assert hint in remedy
