"""The main job in two calls, as older code makes it: first text, then tokens.

In: a config. Out: of the first call the documents that cleaning, filters and deduplication keep; of the
second the dataset of their tokens. `krill.preprocess` does both at once and is what new code should call.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson

from krill.config import KrillConfig, load_config, to_dict
from krill.errors import InputError
from krill.faults import system_errors
from krill.pipeline.job import preprocess
from krill.pipeline.summary import Summary
from krill.storage.object_store import is_object_url
from krill.storage.run import RunSummary

do_preprocess = preprocess
Texts = Iterable[str | Mapping[str, Any]]


@system_errors()
def run_datatrove_pipeline(
    config: str | Path | Mapping[str, Any] | KrillConfig,
    *,
    memory: str | int | None = None,
    threads: int | str | None = None,
    overwrite: bool = False,
) -> Summary:
    """Clean, filter and deduplicate; the kept documents go to `prepared_path` with `-text` behind it."""
    settings = to_dict(load_config(config, memory=memory, threads=threads))
    output = f"{settings['preprocess']['prepared_path']}-text"
    settings["preprocess"] |= {"output": "text", "prepared_path": output}
    return preprocess(settings, overwrite=overwrite)


@system_errors()
def tokenize_and_pack(
    data: Summary | str | Path | Texts,
    config: str | Path | Mapping[str, Any] | KrillConfig,
    *,
    memory: str | int | None = None,
    threads: int | str | None = None,
    overwrite: bool = False,
) -> Summary:
    """The dataset of documents that are clean already: what `run_datatrove_pipeline` returned, a path, or
    texts, alone or as rows with a `text`."""
    settings = to_dict(load_config(config, memory=memory, threads=threads))
    settings["preprocess"] |= {
        "output": "tokens",
        "filters": [],
        "dedup": {"method": "none"},
        "rejected": False,
    }
    settings["preprocess"]["dedup_cache_dir"] = None
    if isinstance(data, RunSummary | str | Path):
        path = data.output if isinstance(data, RunSummary) else data
        return preprocess({**settings, "datasets": [{"path": str(path)}]}, overwrite=overwrite)
    with tempfile.TemporaryDirectory(prefix=".texts-", dir=_beside(settings)) as folder:
        file = _write_lines(data, Path(folder) / "texts.jsonl")
        return preprocess({**settings, "datasets": [{"path": str(file)}]}, overwrite=overwrite)


def _beside(settings: Mapping[str, Any]) -> Path | None:
    """The folder of the output, for temporary files; None, for the system's, if it is in an object store."""
    output = settings["preprocess"]["prepared_path"]
    if is_object_url(output):
        return None
    parent = Path(output).absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    return parent


def _write_lines(texts: Texts, path: Path) -> Path:
    with path.open("wb") as file:
        for number, row in enumerate(texts):
            text = row.get("text") if isinstance(row, Mapping) else row
            if not isinstance(text, str):
                raise InputError(
                    f"document {number:,} is not text: `{str(text)[:80]}`",
                    hint="give strings, or rows with a string under `text`",
                )
            file.write(orjson.dumps({"text": text}, option=orjson.OPT_APPEND_NEWLINE))
    return path
