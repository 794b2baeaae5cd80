"""Tokenizers, weights, checkpoints and configs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

import numpy as np

from fasttext_files import ModelFile
from fuzzing import Target
from krill.config import load_config
from mutations import mutate_bytes, mutate_json

TEXTS = ["some words, and some more of them", "déjà vu 漢字 \U0001f600 <|end|>", "x" * 300, " \n\t 12 34"]


def _make_tokenizers(folder: Path) -> Mapping[str, Sequence[str]]:
    """One of each family that is encoded natively, and one that is left to the library."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    byte_level = Tokenizer(models.BPE())
    byte_level.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    byte_level.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    split = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    split.pre_tokenizer = pre_tokenizers.Metaspace()
    unigram = Tokenizer(models.Unigram())
    unigram.normalizer = normalizers.NFKC()
    words = Tokenizer(models.WordPiece(unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["<|end|>", "<unk>"]
    trained = {
        "bytes": (
            byte_level,
            trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, special_tokens=special),
        ),
        "bpe": (split, trainers.BpeTrainer(vocab_size=120, special_tokens=special)),
        "unigram": (
            unigram,
            trainers.UnigramTrainer(vocab_size=80, special_tokens=special, unk_token="<unk>"),
        ),
        "words": (words, trainers.WordPieceTrainer(vocab_size=120, special_tokens=special)),
    }
    for name, (tokenizer, trainer) in trained.items():
        tokenizer.train_from_iterator(TEXTS * 3, trainer)
        (folder / name).mkdir()
        tokenizer.save(str(folder / name / "tokenizer.json"))
        declared = {"eos_token": "<|end|>", "tokenizer_class": "PreTrainedTokenizerFast"}
        (folder / name / "tokenizer_config.json").write_text(json.dumps(declared))
    return {name: ["tokenizer.json"] * 4 + ["tokenizer_config.json"] for name in trained}


def check_tokenizer(folder: Path, random: Random) -> None:
    from krill.tokenizer import load

    tokenizer = load(folder, memory="2GB", threads=1)
    for text in TEXTS:
        ids = tokenizer.encode(text)
        assert len(ids) == 0 or int(ids.max()) < tokenizer.vocab_size
        tokenizer.decode(ids)
    tokenizer.encode_batch(TEXTS)


def _make_model(folder: Path) -> Mapping[str, Sequence[str]]:
    from krill.training.safetensors_file import write_tensors

    model = folder / "model"
    model.mkdir()
    tensors = {
        "a.weight": np.ones((3, 5), np.float32),
        "b": np.zeros(0, np.float32),
        "c": np.ones(7, np.float32),
    }
    shapes = {name: array.shape for name, array in tensors.items()}
    write_tensors(model / "model.safetensors", shapes, tensors.items())
    config = {
        **{"model_type": "llama", "vocab_size": 300, "hidden_size": 64, "intermediate_size": 128},
        **{"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5},
        **{"max_position_embeddings": 128, "tie_word_embeddings": True, "hidden_act": "silu"},
    }
    (model / "config.json").write_text(json.dumps(config))
    return {"model": ["model.safetensors"] * 3 + ["config.json"]}


def check_model(folder: Path, random: Random) -> None:
    from krill.training.safetensors_file import TensorFile
    from krill.training.saved_model import open_model

    with TensorFile(folder / "model.safetensors") as tensors:
        for name in tensors:
            assert tensors[name].ndim >= 0
    assert open_model(folder).context >= 2


def _mutate_tensors(data: bytes, random: Random, others: Sequence[bytes]) -> bytes:
    """The header alone, which stays as long as its length says, or the whole."""
    if data[:1] == b"{":
        return mutate_json(data, random, others)
    if random.random() < 0.3:
        return mutate_bytes(data, random, others)
    length = int.from_bytes(data[:8], "little")
    header = mutate_json(data[8 : 8 + length], random, others)
    return len(header).to_bytes(8, "little") + header + data[8 + length :]


def _make_checkpoint(folder: Path) -> Mapping[str, Sequence[str]]:
    from dataclasses import asdict

    from krill.model.sizing import ModelShape
    from krill.training.checkpoint_files import HEADER, _digest

    shape = asdict(ModelShape(vocab_size=300, width=64, layers=2, heads=4, kv_heads=2, hidden=128))
    place = folder / "run" / "checkpoints" / "00000010"
    place.mkdir(parents=True)
    body = {"format": 1, "step": 10, "metric": 1.5, "shape": shape, "extra": {"plan": {"length": 64}}}
    body |= {"arrays": {"model.embed": ["float32", [300, 64]]}, "files": {"arrays/a": [3, "0" * 64]}}
    (place / HEADER).write_text(json.dumps({**body, "sha256": _digest(body)}))
    return {"run": [f"checkpoints/00000010/{HEADER}"]}


def check_checkpoint(folder: Path, random: Random) -> None:
    """With its checksum put right at times, as one that was edited."""
    from krill.training.checkpoint_files import HEADER, _digest
    from krill.training.saved_model import open_model

    path = folder / "checkpoints" / "00000010" / HEADER
    if random.random() < 0.7:
        try:
            body = json.loads(path.read_bytes())
            body.pop("sha256")
            path.write_text(json.dumps({**body, "sha256": _digest(body)}))
        except (ValueError, AttributeError, KeyError, TypeError):
            pass
    open_model(folder, checkpoint=random.choice(["latest", "best", 10]))


CONFIG = b"""datasets:
  - path: data/*.jsonl
    columns: [id, "n\\u00e9"]
    split: train[:10%]
tokenizer: {builtin: bytes}
preprocess: &shared
  prepared_path: out/dataset
  sequence_len: 1024
  dedup: {method: minhash, threshold: 0.8}
  filters: [gopher_quality, {name: language, allow: [en]}]
train:
  output_dir: out/model
  layers: 2
memory: 512MB
"""


def _make_config(folder: Path) -> Mapping[str, Sequence[str]]:
    (folder / "config").mkdir()
    (folder / "config" / "config.yaml").write_bytes(CONFIG)
    return {"config": ["config.yaml"]}


def check_config(folder: Path, random: Random) -> None:
    load_config(folder / "config.yaml", environ={})


WITH_JAX = ("krill.training.saved_model",)


def _make_fasttext(folder: Path) -> Mapping[str, Sequence[str]]:
    files = {
        "plain": ModelFile(bucket=40, word_ngrams=2, maxn=3),
        "tree": ModelFile(loss="hs"),
        "quantised": ModelFile(quantised=True, norms=True, bucket=40, maxn=3, pruned={2: 0, 7: 1}),
    }
    for name, file in files.items():
        (folder / name).mkdir()
        (folder / name / "model.bin").write_bytes(file.bytes())
    return {name: ["model.bin"] for name in files}


def check_fasttext(folder: Path, random: Random) -> None:
    from krill.corpus.buffers import text_buffers, text_column_of
    from krill.text.fasttext import FastTextModel, model_bytes

    path = str(folder / "model.bin")
    assert model_bytes(path) < 10_000_000
    model = FastTextModel.load(path)
    wanted = np.arange(len(model.labels), dtype=np.int32)
    scores, best, _ = model.native.score(*text_buffers(text_column_of(TEXTS)), wanted, False)
    assert len(scores) == len(TEXTS) * len(wanted)
    assert best.max() < len(wanted)


MODEL_TARGETS = [
    Target("fasttext", _make_fasttext, check_fasttext),
    Target("tokenizer", _make_tokenizers, check_tokenizer, mutate_json),
    Target("config", _make_config, check_config),
    Target("saved-model", _make_model, check_model, _mutate_tensors, WITH_JAX),
    Target("checkpoint", _make_checkpoint, check_checkpoint, mutate_json, WITH_JAX),
]
