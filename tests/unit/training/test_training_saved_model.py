"""A model on disk: what was saved comes back, from the export and from checkpoints; damage is named."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from krill.errors import ConfigError, InputError
from krill.model.sizing import ModelShape
from krill.model.transformer import Transformer
from krill.tokenizer import ByteEncoder
from krill.training.checkpoints import CheckpointStore
from krill.training.precision import Precision, first_scale
from krill.training.safetensors_file import TensorFile
from krill.training.saved_model import open_model, push_model, save_model, save_tokenizer
from krill.training.step import TrainState
from local_hub import serving
from properties import tried
from tiny_models import tiny_model

pytestmark = pytest.mark.jax

SHAPE = ModelShape(vocab_size=257, width=16, layers=2, heads=2, kv_heads=1, hidden=24)


@pytest.fixture(scope="module")
def model() -> Transformer:
    return tiny_model(SHAPE, 3)


@pytest.fixture(scope="module")
def exported(model: Transformer, tmp_path_factory) -> Path:
    """A training's folder with its model and the checkpoints of steps 5 and 9; not to be changed."""
    folder = tmp_path_factory.mktemp("exported") / "model"
    save_model(folder, model, context=32, tokenizer="bytes")
    store = CheckpointStore(folder / "checkpoints", keep=5, note=pytest.fail)
    for step, metric in ((5, 1.0), (9, 2.0)):
        weights = jax.tree.map(lambda leaf, by=step: leaf + by, model)
        state = TrainState(weights, (), first_scale(Precision.FLOAT32), jnp.asarray(step, jnp.int32))
        assert store.save(step, state, {"plan": {"length": 16}}, metric=metric)
    return folder


def assert_same(found: Transformer, expected: Transformer) -> None:
    assert found.shape == expected.shape
    same = jax.tree.map(lambda one, other: one.dtype == other.dtype and (one == other).all(), found, expected)
    assert all(jax.tree.leaves(same))


def test_the_exported_model_comes_back_number_by_number(exported, model):
    opened = open_model(exported)
    assert (opened.shape, opened.context, opened.step) == (SHAPE, 32, None)
    assert_same(opened.model, model)
    assert opened.open_tokenizer(None).vocab_size == 257
    assert orjson.loads((exported / "config.json").read_bytes())["eos_token_id"] == 256


@pytest.mark.parametrize(("which", "step"), [("latest", 9), ("best", 5), ("5", 5), (9, 9)])
def test_a_checkpoint_is_opened_by_name_or_number(exported, model, which, step):
    opened = open_model(exported, checkpoint=which)
    assert (opened.shape, opened.context, opened.step) == (SHAPE, 16, step)
    assert_same(opened.model, jax.tree.map(lambda leaf: leaf + step, model))


def test_a_checkpoint_that_is_not_there_is_refused_with_those_that_are(exported, tmp_path):
    with pytest.raises(InputError, match="no intact checkpoint `7`") as refused:
        open_model(exported, checkpoint="7")
    assert refused.value.hint == "give one of latest, 5, 9"
    with pytest.raises(ConfigError, match="no checkpoint `newest`"):
        open_model(exported, checkpoint="newest")
    with pytest.raises(InputError, match="no model folder at `nowhere`"):
        open_model("nowhere")
    with pytest.raises(InputError, match=r"has no `config.json` with a `model.safetensors`") as empty:
        open_model(tmp_path)
    assert "train.output_dir" in str(empty.value.hint)
    shutil.copytree(exported / "checkpoints", tmp_path / "checkpoints")
    with pytest.raises(InputError, match="its training is not finished") as unfinished:
        open_model(tmp_path)
    assert unfinished.value.hint == "give --checkpoint latest"


def test_a_damaged_checkpoint_is_refused_and_not_replaced_by_another(exported, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(exported, folder)
    largest = max((folder / "checkpoints" / "00000009").rglob("*"), key=lambda path: path.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[-1] ^= 1
    largest.write_bytes(content)
    with pytest.raises(InputError, match=r"the checkpoint of step 9 is damaged.*has changed bytes"):
        _ = open_model(folder, checkpoint="latest").model


def test_a_tokenizer_of_another_vocabulary_is_refused_with_both_numbers(exported, tmp_path, model):
    small = ModelShape(vocab_size=100, width=16, layers=1, heads=2, kv_heads=1, hidden=24)
    save_model(tmp_path, tiny_model(small, 1), context=32, tokenizer="bytes")
    with pytest.raises(InputError, match=r"vocabulary of 100 tokens, the tokenizer of .* one of 257"):
        _ = open_model(tmp_path).open_tokenizer(None)
    save_model(tmp_path / "without", model, context=32, tokenizer=None)
    with pytest.raises(InputError, match=r"no `tokenizer.json` beside the model"):
        _ = open_model(tmp_path / "without").open_tokenizer(None)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"rope_scaling": {"type": "linear"}}, "has rope_scaling `{'type': 'linear'}`, and only `None`"),
        ({"rope_parameters": {"rope_type": "llama3"}}, "has rope_type `llama3`, and only `default`"),
        ({"attention_bias": True}, "has attention_bias `True`, and only `False`"),
        ({"hidden_act": "gelu"}, "has hidden_act `gelu`, and only `silu`"),
        ({"hidden_size": "wide"}, "config.json` does not describe a model: a model's `width` is `wide`"),
        ({"rope_theta": "wide"}, "has a size that is not a number"),
        ({"max_position_embeddings": None}, "`max_position_embeddings` in"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings `False`"),
    ],
)
def test_a_config_that_means_another_model_is_refused(exported, tmp_path, change, fault):
    config = orjson.loads((exported / "config.json").read_bytes())
    (tmp_path / "config.json").write_bytes(orjson.dumps({**config, **change}))
    (tmp_path / "model.safetensors").write_bytes((exported / "model.safetensors").read_bytes())
    with pytest.raises(InputError, match=re.escape(fault)):
        open_model(tmp_path)


@tried(20)
@given(text=st.text(max_size=30))
def test_the_byte_tokenizer_s_file_gives_the_same_ids(exported, text):
    import pyarrow as pa

    expected, _ = ByteEncoder().encode(pa.array([text], pa.large_string()))
    found = open_model(exported).open_tokenizer(None).encode(text)
    assert [*found.tolist(), 256] == expected.tolist()


def test_a_tokenizer_without_declarations_gets_them(exported, tmp_path):
    (tmp_path / "other").mkdir()
    shutil.copy(exported / "tokenizer.json", tmp_path / "bare.json")
    save_tokenizer(tmp_path / "other", tmp_path / "bare.json")
    declared = orjson.loads((tmp_path / "other" / "tokenizer_config.json").read_bytes())
    assert declared == {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"}


def test_safetensors_own_library_reads_what_is_written_and_the_other_way_round(exported, tmp_path):
    library = pytest.importorskip("safetensors.numpy")
    theirs = library.load_file(exported / "model.safetensors")
    with TensorFile(exported / "model.safetensors") as ours:
        assert set(ours) == set(theirs)
        assert all((ours[name] == theirs[name]).all() for name in theirs)
    half = {"a": np.arange(6, dtype=np.float16).reshape(2, 3), "b": np.zeros(0, np.float32)}
    library.save_file(half, tmp_path / "half.safetensors")
    with TensorFile(tmp_path / "half.safetensors") as ours:
        assert {name: ours[name].tolist() for name in ours} == {"a": [[0, 1, 2], [3, 4, 5]], "b": []}


@pytest.mark.parametrize(
    ("header", "fault"),
    [
        (b"\xff" * 8, "its header would have"),
        (b"", "its header would have"),
        (b"\x02" + bytes(7) + b"[]", "its header is not as the format says"),
        ({"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}, "`a` does not lie inside"),
        ({"a": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}}, "`a` does not lie inside"),
        ({"a": {"dtype": "F32", "shape": [-2], "data_offsets": [8, 0]}}, "`a` has an impossible size"),
        ({"a": {"dtype": "I8", "shape": [8], "data_offsets": [0, 8]}}, "`a` in .* is stored as `I8`"),
        ({"a": {"dtype": "F32"}}, "its header is not as the format says"),
    ],
)
def test_a_damaged_safetensors_file_is_named(tmp_path, header, fault):
    path = tmp_path / "model.safetensors"
    if isinstance(header, dict):
        encoded = orjson.dumps(header)
        header = len(encoded).to_bytes(8, "little") + encoded + bytes(8)
    path.write_bytes(header)
    with pytest.raises(InputError, match=fault):
        TensorFile(path)


def test_a_finished_model_is_uploaded_without_its_checkpoints(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "made-up")
    model = tiny_model(ModelShape(257, 16, 1, 2, 1, 24), 1)
    save_model(tmp_path, model, context=64, tokenizer="bytes")
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "config.json").write_text("{}")
    (tmp_path / "krill-run.json").write_text("{}")
    with serving() as hub:
        address = push_model(tmp_path, "me/model", endpoint=hub.address)
        assert address == f"{hub.address}/me/model"
        pushed = hub.repositories["me/model"]
    assert sorted(pushed) == ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
    assert all(content == (tmp_path / name).read_bytes() for name, content in pushed.items())


def test_a_model_that_is_not_finished_is_not_uploaded(tmp_path):
    with pytest.raises(InputError, match="no finished model at"):
        push_model(tmp_path, "me/model")
