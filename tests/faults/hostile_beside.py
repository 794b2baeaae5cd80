"""What stands beside tokenizers; tokenizers met by other verbs; readers, features and checkpoints."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hostile import FAULTS, OUTPUT, Case, save, settings, words
from hostile_models import CONFIG, MEMORY, SHAPES, command, save_model, tensors
from hostile_outputs import _write
from hostile_questions import ANSWER, CONTEXT, EVALUATE, GOOD, TRAIN, paragraph, prepared, squad
from hostile_text import WHOLE
from hostile_tokenizer_files import BUDGET, SYMBOLS, Content, added, bpe, plain, put

import preloaded

REFUSED = frozenset(FAULTS)
ANY = FAULTS | {0}
OBEYED = "\x1b]0;x\x07\x9b31m\u202e[/red]"
GROWING = {"type": "Replace", "pattern": {"String": "s"}, "content": "ss"}


def cases() -> Iterator[Case]:
    yield from _declarations()
    yield from _tokenizers_elsewhere()
    yield from _questions()
    yield from _readers()
    yield from _features()
    yield from _checkpoints()
    yield from _models()


def _declarations() -> Iterator[Case]:
    """`tokenizer_config.json` and `special_tokens_map.json`."""
    kinds: dict[str, Content] = {
        "a-list": b"[1]",
        "a-number": b"7",
        "deep": b'{"eos_token":' + b"[" * 100_000,
        "not-utf8": b'{"eos_token": "\xff"}',
        "a-fifo": os.mkfifo,
        "a-folder": Path.mkdir,
        "a-device": lambda path: path.symlink_to("/dev/zero"),
        "a-link-to-itself": lambda path: path.symlink_to(path.name),
        "sparse": lambda path: (path.touch(), os.truncate(path, 3 * 10**9)),
        "of-small-lists": lambda path: path.write_bytes(b'{"a": [' + b"[]," * 10_000_000 + b"0]}"),
        "eos-a-number": {"eos_token": 7, "bos_token": [1], "pad_token": {"content": 5}},
        "eos-of-escapes": {"eos_token": OBEYED, "padding_side": OBEYED},
        "pad-type-text": {"pad_token_type_id": "x"},
        "pad-type-huge": {"pad_token_type_id": 2**70},
        "pad-type-negative": {"pad_token_type_id": -1},
        "side-a-list": {"padding_side": ["left"], "eos_token": {}},
    }
    for name, content in kinds.items():

        def make(folder: Path, content: Content = content) -> None:
            put(folder / "tokenizer.json", plain())
            put(folder / "tokenizer_config.json", content)
            put(folder / "questions.json", GOOD)
            (folder / "input.jsonl").write_bytes(WHOLE)
            save(folder, {**settings(), "tokenizer": {"path": "tokenizer.json"}})

        encode = ["tokenizer", "encode", "some", "--tokenizer", "tokenizer.json", *BUDGET]
        yield Case(f"beside-{name}-encode", make, encode)
        question = prepared("", GOOD)
        yield Case(f"beside-{name}-qa-prepare", make, question.arguments)
        if name in ("a-fifo", "a-device", "sparse", "eos-of-escapes", "of-small-lists"):
            said = words("preprocess", "config.yaml", "--set", "preprocess.max_document_bytes=100KB")
            yield Case(f"beside-{name}-preprocess", make, said)
            yield Case(f"beside-{name}-estimate", make, words("estimate", "config.yaml"))


def _tokenizers_elsewhere() -> Iterator[Case]:
    """Tokenizers that make much of little, or whose ids are far away, for every verb that opens one."""
    padding = {
        "strategy": "BatchLongest",
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 2**32 - 1,
        "pad_type_id": 2**32 - 1,
        "pad_token": OBEYED,
    }
    template = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "[N]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [
            {"Sequence": {"id": "A", "type_id": 2**32 - 1}},
            {"SpecialToken": {"id": "[N]", "type_id": 0}},
            {"Sequence": {"id": "B", "type_id": 1}},
        ],
        "special_tokens": {"[N]": {"id": "[N]", "ids": [2**32 - 1], "tokens": ["[N]"]}},
    }
    kinds = {
        "growing": plain(normalizer={"type": "Sequence", "normalizers": [GROWING] * 30}),
        "growing-in-decoding": plain(decoder={"type": "Sequence", "decoders": [GROWING] * 30}),
        "vanishing": plain(normalizer={"type": "Replace", "pattern": {"Regex": "[^\\u0000]"}, "content": ""}),
        "far-ids": bpe({**{symbol: at for at, symbol in enumerate(SYMBOLS)}, "so": 2**32 - 1}, [["s", "o"]]),
        "far-added": added("some", first=4_000_000_000),
        "padding-far": plain(padding=padding),
        "template-far": plain(post_processor=template),
        "empty": bpe({}),
        "unknown-alone": plain(model={"type": "WordLevel", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"}),
        "not-a-number": plain(model={"type": "Unigram", "vocab": [["s", float("nan")]], "unk_id": 0}),
    }
    for name, tokenizer in kinds.items():

        def make(folder: Path, tokenizer: Any = tokenizer) -> None:
            put(folder / "tokenizer.json", tokenizer)
            (folder / "input.jsonl").write_bytes(WHOLE)
            (folder / "questions.json").write_text(json.dumps(GOOD))
            save(folder, {**settings(max_document_bytes="100KB"), "tokenizer": {"path": "tokenizer.json"}})
            save_model(folder / "model", tokenizer=tokenizer)

        said = {
            "preprocess": words("preprocess", "config.yaml"),
            "estimate": words("estimate", "config.yaml"),
            "qa-prepare": prepared("", GOOD).arguments,
            "encode-files": [
                "tokenizer", "encode", "--input", "input.jsonl", "--output", "out.bin",
                "--tokenizer", "tokenizer.json", *BUDGET,
            ],
        }  # fmt: skip
        for verb, arguments in said.items():
            yield Case(f"elsewhere-{name}-{verb}", make, arguments)
        generate = command("generate", "model", "--prompt", "some", "--max-tokens", "3")
        yield Case(f"elsewhere-{name}-generate", make, generate, memory=MEMORY)
        train = ["--dataset-id", "input.jsonl", "--tokenizer", "tokenizer.json", "--seq-len", "0"]
        said_train = command("train", "--output-dir", OUTPUT, *train)
        yield Case(f"elsewhere-{name}-train", make, said_train, REFUSED, memory=MEMORY)


def _questions() -> Iterator[Case]:
    """Files of questions in columns."""
    row = {"id": ["a"], "question": ["Which?"], "context": [CONTEXT]}
    good = pa.array([{"text": ["Alba"], "answer_start": [ANSWER["answer_start"]]}])
    tables = {
        "good": pa.table({**row, "answers": good}),
        "no-answers": pa.table(row),
        "answers-text": pa.table({**row, "answers": ["Alba"]}),
        "answers-null": pa.table({**row, "answers": pa.nulls(1)}),
        "answers-uneven": pa.table({**row, "answers": pa.array([{"text": ["a", "b"], "answer_start": [1]}])}),
        "answers-of-nulls": pa.table(
            {**row, "answers": pa.array([{"text": [None], "answer_start": [None]}])}
        ),
        "starts-text": pa.table({**row, "answers": pa.array([{"text": ["Alba"], "answer_start": ["5"]}])}),
        "starts-fractions": pa.table({**row, "answers": pa.array([{"text": ["a"], "answer_start": [1.5]}])}),
        "starts-62-bits": pa.table({**row, "answers": pa.array([{"text": ["a"], "answer_start": [2**62]}])}),
        "context-bytes": pa.table({**row, "context": [b"\xff\xfe"], "answers": good}),
        "context-not-utf8": pa.table(
            {**row, "context": pa.array([b"\xff\xfe"]).view(pa.string()), "answers": good}
        ),
        "context-null": pa.table({**row, "context": pa.nulls(1, pa.string()), "answers": good}),
        "id-numbers": pa.table({**row, "id": [7], "answers": good}),
        "id-twice": pa.table([["a"], ["b"]], names=["id", "id"]),
        "of-no-rows": pa.table({**row, "answers": good}).slice(0, 0),
        "dictionary": pa.table({**row, "context": pa.array([CONTEXT]).dictionary_encode(), "answers": good}),
    }
    for name, table in tables.items():
        yield prepared(
            f"parquet-{name}",
            lambda path, table=table: pq.write_table(table, path),
            file="questions.parquet",
        )
    whole: dict[str, Content] = {"noise": b"PAR1" + bytes(100) + b"PAR1", "a-fifo": os.mkfifo, "empty": b""}
    for name, content in whole.items():
        yield prepared(f"parquet-file-{name}", content, file="questions.parquet", codes=REFUSED)


READER: dict[str, Any] = {
    **CONFIG,
    "architectures": ["KrillReader"],
    "model_type": "krill_reader",
    "memory_read_ids": [90, 91],
    "memory_write_ids": [92, 93],
    "memory_around": True,
    "type_vocab_size": 2,
    "krill_tokenizer": "x",
}


def _readers() -> Iterator[Case]:
    """The config of a reader, which is one in all but a number."""
    changes: dict[str, dict[str, Any]] = {
        "none": {},
        "reads-negative": {"memory_read_ids": [-5, -6]},
        "reads-far": {"memory_read_ids": [2**40, 2**40 + 1]},
        "reads-text": {"memory_read_ids": "ab"},
        "reads-a-number": {"memory_read_ids": 5},
        "reads-null": {"memory_read_ids": None},
        "reads-uneven": {"memory_read_ids": [90]},
        "reads-millions": {
            "memory_read_ids": list(range(200_000)),
            "memory_write_ids": list(range(200_000)),
        },
        "types-huge": {"type_vocab_size": 2**40},
        "types-beyond-64-bits": {"type_vocab_size": 2**70},
        "types-zero": {"type_vocab_size": 0},
        "types-infinite": {"type_vocab_size": 1e400},
        "context-huge": {"max_position_embeddings": 2**50},
        "context-zero": {"max_position_embeddings": 0},
        "context-text": {"max_position_embeddings": "\x1b[31m"},
        "tokenizer-a-list": {"krill_tokenizer": [OBEYED]},
        "theta-zero": {"rope_theta": 0},
        "heads-true": {"num_attention_heads": True},
    }
    for name, changed in changes.items():

        def make(folder: Path, changed: dict[str, Any] = changed) -> None:
            shutil.copytree(whole_features(), folder / "features")
            save_model(folder / "model", {**READER, **changed})

        yield Case(f"reader-{name}", make, command(*EVALUATE), REFUSED, memory=MEMORY)


@cache
def whole_features() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="krill-hostile-"))
    content = squad(*(paragraph(ANSWER, id=f"q{at}") for at in range(20)))
    case = prepared("", content)
    case.make(folder)
    done = preloaded.run(case.arguments, cwd=folder)
    assert done.code == 0, done.err
    return folder / OUTPUT


def _features() -> Iterator[Case]:
    """Whole features, damaged; all are refused before a reader is trained on them."""
    table = "features-00000.arrow"

    def say(key: str, value: Any) -> Callable[[Path], object]:
        def damage(out: Path) -> None:
            manifest = json.loads((out / "krill-run.json").read_bytes())
            manifest[key] = value
            (out / "krill-run.json").write_text(json.dumps(manifest))

        return damage

    damages: dict[str, Callable[[Path], object]] = {
        "table-cut": lambda out: os.truncate(out / table, 1000),
        "table-of-zeros": lambda out: (out / table).write_bytes(bytes(3184)),
        "table-flipped": _flipped(table, 2000),
        "paragraphs-flipped": _flipped("paragraphs-00000.arrow", 20_000),
        "examples-flipped": _flipped("examples-00000.arrow", 2500),
        "table-a-fifo": lambda out: [(out / table).unlink(), os.mkfifo(out / table)],
        "table-a-device": lambda out: [(out / table).unlink(), (out / table).symlink_to("/dev/zero")],
        "tables-swapped": lambda out: shutil.copy(out / "examples-00000.arrow", out / table),
        "units-more": say("units", [[20, 20, 100, 56416]] * 2),
        "units-huge": say("units", [[2**40, 2**40, 2**40, 2**40]]),
        "units-many": say("units", [[1, 1, 1, 1]] * 200_000),
        "layout-null": say("layout", None),
        "layout-pieces": say("layout", {"pieces": [["question", 2**40, [2**40]]]}),
        "tokenizer-null": say("tokenizer", None),
        "files-outside": say("files", [{"file": "../../NOTES.md", "bytes": 1, "sha256": "x"}]),
        "manifest-sparse": lambda out: os.truncate(out / "krill-run.json", 3 * 10**9),
        "manifest-a-fifo": lambda out: [
            (out / "krill-run.json").unlink(),
            os.mkfifo(out / "krill-run.json"),
        ],
        "config-null": say("config", None),
    }
    for name, damage in damages.items():

        def make(folder: Path, damage: Callable[[Path], object] = damage) -> None:
            shutil.copytree(whole_features(), folder / "features")
            damage(folder / "features")
            put(folder / "tokenizer.json", plain())
            save_model(folder / "model", READER)

        small = ("--hidden", "16", "--layers", "1", "--heads", "1", "--epochs", "1", "--batch-size", "2")
        yield Case(f"features-{name}-train", make, command(*TRAIN, *small), REFUSED, memory=MEMORY)
        yield Case(f"features-{name}-evaluate", make, command(*EVALUATE), REFUSED, memory=MEMORY)


def _flipped(name: str, at: int) -> Callable[[Path], object]:
    def damage(out: Path) -> None:
        content = bytearray((out / name).read_bytes())
        content[at] ^= 0x10
        (out / name).write_bytes(content)

    return damage


def _checkpoints() -> Iterator[Case]:
    """Folders of checkpoints for `generate`, `evaluate` and `qa evaluate`."""
    header = "checkpoints/00000002/checkpoint.json"
    kinds: dict[str, Callable[[Path], object]] = {
        "empty": _write(header, b""),
        "deep": _write(header, b'{"sha256": "a", "shape":' + b"[" * 200_000),
        "sparse": lambda out: os.truncate(out / header, 3 * 10**9),
        "fifo": lambda out: [(out / header).unlink(), os.mkfifo(out / header)],
        "device": lambda out: [(out / header).unlink(), (out / header).symlink_to("/dev/zero")],
        "list": _write(header, b"[]"),
        "numbers": _write(header, b'{"sha256": 5, "format": 1}'),
        "step-a-file": lambda out: [
            shutil.rmtree(out / "checkpoints/00000002"),
            (out / "checkpoints/00000002").touch(),
        ],
        "step-huge": lambda out: (out / "checkpoints" / ("9" * 200)).mkdir(),
        "step-arabic": lambda out: (out / "checkpoints" / "\u0661\u0662").mkdir(),
        "all-a-file": lambda out: [shutil.rmtree(out / "checkpoints"), (out / "checkpoints").touch()],
        "all-a-loop": lambda out: [
            shutil.rmtree(out / "checkpoints"),
            (out / "checkpoints").symlink_to("checkpoints"),
        ],
    }
    for name, damage in kinds.items():

        def make(folder: Path, damage: Callable[[Path], object] = damage) -> None:
            shutil.copytree(whole_features(), folder / "features")
            (folder / "input.jsonl").write_bytes(WHOLE)
            save_model(folder / "model", READER)
            (folder / "model" / header).parent.mkdir(parents=True)
            (folder / "model" / header).write_bytes(b"{}")
            damage(folder / "model")

        for which in ("latest", "best", "2", "9" * 30):
            verb = {"latest": EVALUATE, "best": ("evaluate", "model", "input.jsonl")}
            said = verb.get(which, ("generate", "model", "--prompt", "some"))
            given = command(*said, "--checkpoint", which)
            yield Case(f"checkpoint-{name}-{which[:6]}", make, given, REFUSED, memory=MEMORY)


def _models() -> Iterator[Case]:
    """Configs and prompts that are possible and much."""
    configs = {
        "context-2-to-40": {"max_position_embeddings": 2**40},
        "context-beyond-64-bits": {"max_position_embeddings": 2**70},
        "hidden-2-to-62": {"intermediate_size": 2**62},
        "vocabulary-2-to-63": {"vocab_size": 2**63},
    }
    for name, changed in configs.items():

        def make(folder: Path, changed: dict[str, Any] = changed) -> None:
            save_model(folder / "model", {**CONFIG, **changed})
            (folder / "input.jsonl").write_bytes(WHOLE)

        for verb, more in {"generate": ("--prompt", "some"), "evaluate": ("input.jsonl",)}.items():
            yield Case(f"{verb}-much-{name}", make, command(verb, "model", *more), memory=MEMORY)

    def large(folder: Path) -> None:
        save_model(folder / "model", {**CONFIG, "x": "y" * 40_000_000})

    said = command("generate", "model", "--prompt", "some")
    yield Case("generate-much-config-of-40-megabytes", large, said, REFUSED, memory=MEMORY)
    twice = {**SHAPES, "lm_head.weight": [len(SYMBOLS), 16], "x" * 100_000: [0]}
    many = {**SHAPES, **{f"t{at}": [0] for at in range(200_000)}}
    prompts = {
        "long": "some words " * 10_000,
        "escapes": OBEYED,
        "nothing-known": "\u6f22" * 50,
        "nul": "a\ufffe",
    }
    for name, shapes in {"tensors-more": twice, "tensors-200000": many}.items():

        def weights(folder: Path, shapes: dict[str, list[int]] = shapes) -> None:
            save_model(folder / "model", weights=tensors(shapes))

        given = command("generate", "model", "--prompt", "some", "--max-tokens", "3")
        yield Case(f"generate-{name}", weights, given, memory=MEMORY)
    for name, prompt in prompts.items():

        def plain_model(folder: Path) -> None:
            save_model(folder / "model")

        given = command("generate", "model", "--prompt", prompt, "--max-tokens", "3", "--inspect")
        yield Case(f"generate-prompt-{name}", plain_model, given, ANY, memory=MEMORY)
