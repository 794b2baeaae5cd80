"""What the tokenizer classes of `transformers` write is run natively, with the library's ids and offsets."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from real_text import real_texts
from tokenizer_building import Family, build
from tokenizer_texts import CODE, EDGES, LANGUAGES, LONG, assert_same, both, noise, with_added

BACKEND = "transformers.tokenization_utils_tokenizers"  # since version 5
pytest.importorskip(BACKEND)


def classes() -> Iterator[type]:
    import transformers

    backend = importlib.import_module(BACKEND).TokenizersBackend
    models = Path(transformers.__file__).parent / "models"
    for file in sorted(models.glob("*/tokenization_*.py")):
        name = f"transformers.models.{file.parent.name}.{file.stem}"
        try:
            module = importlib.import_module(name)
        except (ImportError, NameError):  # of a package that only this model needs
            continue
        yield from (
            each
            for each in vars(module).values()
            if isinstance(each, type) and issubclass(each, backend) and each.__module__ == name
        )


@cache
def families() -> dict[str, Family]:
    """Those that differ, by the first class that has their sections."""
    found: dict[str, tuple[str, Family]] = {}
    for each in classes():
        try:
            written = json.loads(each().backend_tokenizer.to_str())
        except Exception:
            continue
        made = family_of(written)
        found.setdefault(repr(made), (each.__name__, made))
    return dict(found.values())


def family_of(written: dict[str, Any]) -> Family:
    model = written["model"]
    flags = {key: value for key, value in model.items() if key not in ("type", "vocab", "merges", "unk_id")}
    special = [token["content"] for token in written["added_tokens"]][:8]
    unknown = [model["unk_token"]] if model.get("unk_token") else []
    first = ["<s>", "</s>", "<unk>"] if model["type"] == "Unigram" else unknown
    by_bytes = "ByteLevel" in json.dumps(written["pre_tokenizer"])
    kinds = {"Unigram": "unigram", "WordPiece": "pieces", "WordLevel": "words"}
    return Family(
        kinds.get(model["type"], "bytes" if by_bytes else "characters"),
        written["pre_tokenizer"],
        written["normalizer"],
        None,
        written["decoder"],
        tuple(dict.fromkeys([*first, *special, "<unk>"])),
        flags,
        tuple({key: token[key] for key in token if key != "id"} for token in written["added_tokens"]),
    )


def test_sections_of_every_class_give_what_the_library_gives(tmp_path: Path) -> None:
    assert len(families()) >= 20
    texts = [*LANGUAGES, CODE, *(text[:500] for text in islice(real_texts(), 0, 60, 3))]
    for name, family in families().items():
        file = tmp_path / name / "tokenizer.json"
        file.parent.mkdir()
        file.write_text(json.dumps(build(family, texts)), encoding="utf-8")
        library, ours = both(file)
        assert_same(library, ours, [*LANGUAGES, CODE, *EDGES, *LONG, *with_added(library), *noise(30)])
