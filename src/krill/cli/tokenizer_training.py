"""What `krill tokenizer train` and `krill train-tokenizer` share: train, upload if asked, and say so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from krill.cli.options import OutputOptions

if TYPE_CHECKING:
    from krill.config.engine import EngineConfig
    from krill.corpus import DatasetSource
    from krill.tokenizer.options import TrainOptions


def train_and_tell(
    sources: Sequence[DatasetSource],
    options: TrainOptions,
    shown: OutputOptions,
    *,
    output: Path,
    memory: str | int,
    threads: int | str,
    engine: EngineConfig | None,
    overwrite: bool,
    verify: bool,
    tiktoken: bool = False,
    chat: bool = False,
    prefix: Path | None = None,
    setting: str = "--output",
    push: str | None = None,
) -> None:
    """Train into the folder `output`; with a `prefix`, write the two files beside it, too."""
    from krill.budget import resolve_limit
    from krill.cli.progress import watch
    from krill.cli.screen import over_budget, print_json, print_notices
    from krill.cli.screen_tokenizer import print_training
    from krill.tokenizer.training import run_training

    limit = resolve_limit(memory)
    with watch(shown, limit=limit) as progress:
        summary = run_training(
            sources,
            options,
            memory=memory,
            threads=threads,
            engine=engine,
            output=output,
            overwrite=overwrite,
            verify=verify,
            tiktoken=tiktoken,
            chat=chat,
            progress=progress,
            setting=setting,
        )
    facts = summary.to_json()
    if summary.status == "done" and facts["budget"]["measured_peak"] > facts["budget"]["limit"]:
        print_notices([over_budget(facts["budget"])])
    files = [] if prefix is None else _save_prefixed(output, prefix)
    if push is not None:
        from krill.tokenizer.push import push_tokenizer

        facts["pushed"] = push_tokenizer(output, push)
    if shown.json:
        print_json({**facts, "files": [str(file) for file in files]})
    elif not shown.quiet:
        print_training(facts, files)


def _save_prefixed(folder: Path, prefix: Path) -> list[Path]:
    """The tokenizer in `folder` once more, in the two files that `MemoryEfficientBPE` reads."""
    from krill.compat.bpe import MemoryEfficientBPE
    from krill.storage.atomic import storage_errors

    tokenizer = MemoryEfficientBPE()
    tokenizer.load(folder / "tokenizer.json")
    vocabulary, merges = (
        prefix.with_name(f"{prefix.name}_{part}") for part in ("vocabulary.json", "merges.txt")
    )
    with storage_errors(prefix.parent):
        prefix.parent.mkdir(parents=True, exist_ok=True)
    tokenizer.save_vocabulary(vocabulary)
    tokenizer.save_merges(merges)
    return [vocabulary, merges]
