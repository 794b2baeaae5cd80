"""Hostile models and flags: for `krill generate` and `evaluate`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from hostile import Case
from hostile_text import WHOLE
from hostile_tokenizer_files import SYMBOLS, bpe, plain

# What a command holds that has loaded JAX and no more is most of this.
MEMORY = 1_000_000_000
REFUSED = frozenset({2, 3, 4, 5})
CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "hidden_size": 16,
    "intermediate_size": 44,
    "max_position_embeddings": 32,
    "num_attention_heads": 1,
    "num_hidden_layers": 1,
    "num_key_value_heads": 1,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "torch_dtype": "float32",
    "vocab_size": len(SYMBOLS),
}
SHAPES = {
    "model.embed_tokens.weight": [len(SYMBOLS), 16],
    "model.layers.0.input_layernorm.weight": [16],
    **{f"model.layers.0.self_attn.{part}_proj.weight": [16, 16] for part in "qkvo"},
    "model.layers.0.post_attention_layernorm.weight": [16],
    "model.layers.0.mlp.gate_proj.weight": [44, 16],
    "model.layers.0.mlp.up_proj.weight": [44, 16],
    "model.layers.0.mlp.down_proj.weight": [16, 44],
    "model.norm.weight": [16],
}


def cases() -> Iterator[Case]:
    yield from _configs()
    yield from _weights()
    yield from _tokenizers()
    yield from _generate()
    yield from _evaluate()


def tensors(
    shapes: Mapping[str, Sequence[int]] = SHAPES, *, dtype: str = "F32", fill: float = 0.05, **changed: Any
) -> bytes:
    """A safetensors file; `changed` are keys of the first tensor's header."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, shape in shapes.items():
        size = 4 * int(np.prod(shape))
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    if changed:
        header[next(iter(shapes))].update(changed)
    told = json.dumps(header).encode()
    return len(told).to_bytes(8, "little") + told + np.full(at // 4, fill, "<f4").tobytes()


def save_model(
    folder: Path, config: object = None, weights: bytes | None = None, tokenizer: object = None
) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG if config is None else config))
    (folder / "model.safetensors").write_bytes(tensors() if weights is None else weights)
    (folder / "tokenizer.json").write_text(json.dumps(plain() if tokenizer is None else tokenizer))


def command(verb: str, *more: str, memory: str = "1GB") -> list[str]:
    return [verb, *more, "--memory", memory, "--threads", "1"]


def _refused(name: str, make: Callable[[Path], object], **more: Any) -> Iterator[Case]:
    """A model that `generate` and `evaluate` refuse before they compile anything."""

    def both(folder: Path) -> None:
        make(folder / "model")
        (folder / "input.jsonl").write_bytes(WHOLE)

    said = command("generate", "model", "--prompt", "some", "--max-tokens", "3")
    yield Case(f"generate-{name}", both, said, REFUSED, memory=MEMORY, **more)
    said = command("evaluate", "model", "input.jsonl")
    yield Case(f"evaluate-{name}", both, said, REFUSED, memory=MEMORY, **more)


def _configs() -> Iterator[Case]:
    changes: dict[str, dict[str, Any]] = {
        "layers-zero": {"num_hidden_layers": 0},
        "layers-negative": {"num_hidden_layers": -1},
        "layers-2-to-40": {"num_hidden_layers": 2**40},
        "layers-more-than-there-are": {"num_hidden_layers": 2},
        "width-a-billion": {"hidden_size": 10**9, "head_dim": 10**9},
        "width-beyond-64-bits": {"hidden_size": 2**70},
        "width-other": {"hidden_size": 32},
        "heads-that-do-not-divide": {"num_attention_heads": 3},
        "heads-zero": {"num_attention_heads": 0},
        "heads-shared-wrongly": {"num_key_value_heads": 5},
        "numbers-as-text": {"hidden_size": "16"},
        "numbers-as-fractions": {"hidden_size": 16.5},
        "numbers-as-truth": {"num_hidden_layers": True},
        "epsilon-not-a-number": {"rms_norm_eps": float("nan")},
        "epsilon-negative": {"rms_norm_eps": -1.0},
        "theta-infinite": {"rope_theta": float("inf")},
        "theta-zero": {"rope_theta": 0},
        "theta-text": {"rope_theta": "\x1b[31m"},
        "context-zero": {"max_position_embeddings": 0},
        "context-null": {"max_position_embeddings": None},
        "vocabulary-zero": {"vocab_size": 0},
        "vocabulary-2-to-50": {"vocab_size": 2**50},
        "family-other": {"model_type": "\x1b[1mgpt2"},
        "activation-other": {"hidden_act": "gelu"},
        "embeddings-not-tied": {"tie_word_embeddings": False},
        "scaling-unknown": {"rope_scaling": {"type": "\u202e", "factor": -1}},
    }
    for name, changed in changes.items():
        yield from _refused(f"config-{name}", lambda path, it=changed: save_model(path, {**CONFIG, **it}))
    for key in ("hidden_size", "num_hidden_layers", "vocab_size", "model_type"):
        rest = {name: value for name, value in CONFIG.items() if name != key}
        yield from _refused(f"config-without-{key}", lambda path, it=rest: save_model(path, it))
    for name, whole in {"list": [], "number": 5, "text": "x", "empty": {}}.items():
        yield from _refused(f"config-is-{name}", lambda path, it=whole: save_model(path, it))
    files: dict[str, Callable[[Path], object]] = {
        "cut": lambda path: path.write_bytes(b'{"hidden_size": 16,'),
        "deep": lambda path: path.write_bytes(b"[" * 200_000),
        "not-utf8": lambda path: path.write_bytes(b"\xff\xfe{}"),
        "missing": lambda path: None,
        "folder": Path.mkdir,
        "fifo": os.mkfifo,
        "link-to-itself": lambda path: path.symlink_to(path.name),
    }
    for name, put in files.items():
        yield from _refused(f"config-file-{name}", lambda path, it=put: _replaced(path, "config.json", it))


def _replaced(model: Path, name: str, put: Callable[[Path], object]) -> None:
    save_model(model)
    (model / name).unlink()
    put(model / name)


def _weights() -> Iterator[Case]:
    whole = tensors()
    first = {**SHAPES, "model.embed_tokens.weight": [16, len(SYMBOLS)]}
    fewer = {name: shape for name, shape in SHAPES.items() if "down" not in name}
    contents = {
        "empty": b"",
        "seven-bytes": b"\0" * 7,
        "cut-in-the-header": whole[:100],
        "cut-in-the-data": whole[:-100],
        "longer": whole + bytes(100),
        "header-of-2-to-60": (2**60).to_bytes(8, "little") + b"{}",
        "header-of-90-megabytes": (90_000_000).to_bytes(8, "little") + b"{}",
        "header-not-json": (9).to_bytes(8, "little") + b"not json!",
        "header-a-list": (2).to_bytes(8, "little") + b"[]",
        "header-deep": (100_000).to_bytes(8, "little") + b"[" * 100_000,
        "turned": tensors(first),
        "missing": tensors(fewer),
        "dtype-unknown": tensors(dtype="Q99"),
        "dtype-of-other-size": tensors(dtype="BF16"),
        "dtype-integers": tensors(dtype="I32"),
        "dtype-a-number": tensors(dtype=7),  # type: ignore[arg-type]
        "shape-negative": tensors(shape=[-94, -16]),
        "shape-huge": tensors(shape=[2**40, 2**40]),
        "shape-fractions": tensors(shape=[94.0, 16.0]),
        "shape-text": tensors(shape="many"),
        "offsets-outside": tensors(data_offsets=[0, 2**50]),
        "offsets-backwards": tensors(data_offsets=[6016, 0]),
        "offsets-negative": tensors(data_offsets=[-6016, 0]),
        "offsets-overlap": tensors(data_offsets=[64, 6080]),
        "offsets-missing": tensors(data_offsets=None),
    }
    for name, content in contents.items():
        yield from _refused(f"weights-{name}", lambda path, it=content: save_model(path, weights=it))
    files: dict[str, Callable[[Path], object]] = {
        "folder": Path.mkdir,
        "fifo": os.mkfifo,
        "device": lambda path: path.symlink_to("/dev/zero"),
        "absent": lambda path: None,
    }
    for name, put in files.items():
        yield from _refused(
            f"weights-file-{name}", lambda path, it=put: _replaced(path, "model.safetensors", it)
        )


def _tokenizers() -> Iterator[Case]:
    many = bpe({f"t{at}": at for at in range(500)})
    yield from _refused("tokenizer-of-more-tokens", lambda path: save_model(path, tokenizer=many))
    yield from _refused("tokenizer-of-no-model", lambda path: save_model(path, tokenizer={}))
    yield from _refused(
        "tokenizer-absent", lambda path: _replaced(path, "tokenizer.json", lambda place: None)
    )
    yield from _refused("tokenizer-a-fifo", lambda path: _replaced(path, "tokenizer.json", os.mkfifo))
    yield from _refused("model-absent", lambda path: None)
    yield from _refused("model-an-empty-folder", Path.mkdir)
    yield from _refused("model-a-file", lambda path: path.write_bytes(bytes(1000)))
    yield from _refused("model-a-fifo", os.mkfifo)
    yield from _refused("model-a-link-to-itself", lambda path: path.symlink_to(path.name))


def _generate() -> Iterator[Case]:
    flags = {
        "tokens-zero": ["--max-tokens", "0"],
        "tokens-negative": ["--max-tokens", "-1"],
        "tokens-64-bits": ["--max-tokens", str(2**64)],
        "temperature-nan": ["--temperature", "nan"],
        "temperature-infinite": ["--temperature", "inf"],
        "temperature-negative": ["--temperature", "-1"],
        "top-k-zero": ["--top-k", "0"],
        "top-k-huge": ["--top-k", str(2**64)],
        "top-p-nan": ["--top-p", "nan"],
        "top-p-zero": ["--top-p", "0"],
        "top-p-two": ["--top-p", "2"],
        "samples-zero": ["--samples", "0"],
        "samples-a-billion": ["--samples", "1000000000"],
        "seed-negative": ["--seed", "-1"],
        "seed-64-bits": ["--seed", str(2**64)],
        "prompt-empty": ["--prompt", ""],
        "checkpoint-absent": ["--checkpoint", "7"],
        "checkpoint-negative": ["--checkpoint", "-1"],
        "checkpoint-that-climbs": ["--checkpoint", "../../etc"],
        "memory-one-byte": ["--memory", "1B"],
        "memory-one-megabyte": ["--memory", "1MB"],
        "threads-zero": ["--threads", "0"],
        "threads-negative": ["--threads", "-1"],
    }
    for name, given in flags.items():
        said = ["generate", "model", *given]
        for flag, value in {
            "--prompt": "some",
            "--max-tokens": "3",
            "--memory": "1GB",
            "--threads": "1",
        }.items():
            said += [] if flag in given else [flag, value]
        yield Case(f"generate-flag-{name}", _model_here, said, memory=MEMORY)
    for name, fill in {"not-a-number": float("nan"), "infinite": float("inf")}.items():

        def make(folder: Path, fill: float = fill) -> None:
            save_model(folder / "model", weights=tensors(fill=fill))
            (folder / "input.jsonl").write_bytes(WHOLE)

        said = command("generate", "model", "--prompt", "some", "--max-tokens", "3")
        yield Case(f"generate-weights-{name}", make, said, memory=MEMORY)
        said = command("evaluate", "model", "input.jsonl")
        yield Case(f"evaluate-weights-{name}", make, said, memory=MEMORY)
    for memory in ("256MB", "350MB"):
        said = command("generate", "model", "--prompt", "some", "--max-tokens", "3", memory=memory)
        yield Case(f"inference-budget-{memory}", _model_here, ["inference", *said[1:]], memory=360_000_000)


def _model_here(folder: Path) -> None:
    save_model(folder / "model")
    (folder / "input.jsonl").write_bytes(WHOLE)


def _evaluate() -> Iterator[Case]:
    inputs: dict[str, Callable[[Path], object]] = {
        "absent": lambda path: None,
        "empty": lambda path: path.touch(),
        "not-json": lambda path: path.write_bytes(b"{{{"),
        "no-text": lambda path: path.write_bytes(b'{"a": 1}\n'),
        "folder": Path.mkdir,
        "fifo": os.mkfifo,
        "not-utf8": lambda path: path.write_bytes(b'{"text": "\xff\xfe"}\n' * 5),
    }
    for name, put in inputs.items():

        def make(folder: Path, put: Callable[[Path], object] = put) -> None:
            save_model(folder / "model")
            put(folder / "data.jsonl")

        yield Case(f"evaluate-data-{name}", make, command("evaluate", "model", "data.jsonl"), memory=MEMORY)
    for name, given in {
        "split": ["--split", "\x1b[31mnone"], "column": ["--text-column", "none\x9b"],
        "checkpoint": ["--checkpoint", "best"], "memory": ["--memory", "1MB"], "threads": ["--threads", "0"],
    }.items():  # fmt: skip
        said = [
            "evaluate",
            "model",
            "input.jsonl",
            *given,
            *([] if name == "memory" else ["--memory", "1GB"]),
        ]
        yield Case(f"evaluate-flag-{name}", _model_here, said, REFUSED, memory=MEMORY)
