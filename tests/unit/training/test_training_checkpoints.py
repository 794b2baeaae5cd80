"""Checkpoints come back bit by bit; the newest and the best are kept; what is damaged is left out."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krill.errors import InputError
from krill.model.sizing import ModelShape
from krill.model.transformer import Transformer
from krill.training.checkpoint_files import HEADER, DamagedCheckpoint, named_arrays, read_header, verify
from krill.training.checkpoints import CheckpointStore
from krill.training.codes8bit import Coded
from krill.training.optimizers import make_optimizer
from krill.training.precision import LossScale
from krill.training.step import TrainState
from tiny_models import tiny_model

pytestmark = pytest.mark.jax

SHAPE = ModelShape(vocab_size=40, width=32, layers=4, heads=2, kv_heads=1, hidden=48)
# More than 64 bits, floats that no short text gives, nothing: what a run's state may hold.
EXTRA = {"data": {"state": 2**100 + 1, "epoch": 3}, "loss": 0.1 + 0.2, "none": None, "list": [1, "ü"]}


@functools.cache
def a_state(seed: int, optimizer: str = "adamw8bit", dtype: str = "float32") -> TrainState:
    """A state with numbers everywhere; without compiling anything."""
    rng = np.random.default_rng(seed)
    model = tiny_model(SHAPE, seed, dtype=dtype)
    held = jax.eval_shape(make_optimizer(optimizer, lambda step: jnp.asarray(0.1)).init, model)
    held = jax.tree.map(
        lambda leaf: jnp.asarray(rng.integers(0, 250 if leaf.ndim else 1, leaf.shape).astype(leaf.dtype)),
        held,
    )
    scale = LossScale(jnp.asarray(2.0**15), jnp.asarray(7, jnp.int32))
    return TrainState(model, held, scale, jnp.asarray(seed, jnp.int32))


def shapes_of(state: TrainState) -> TrainState:
    return jax.eval_shape(lambda: state)


def assert_same_bits(found: TrainState, expected: TrainState) -> None:
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for name, leaf in named_arrays(found).items():
        other = named_arrays(expected)[name]
        assert (leaf.dtype, leaf.shape) == (other.dtype, other.shape), name
        assert np.asarray(leaf).tobytes() == np.asarray(other).tobytes(), name


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def store(tmp_path: Path, notes: list[str]) -> CheckpointStore:
    return CheckpointStore(tmp_path / "checkpoints", keep=2, note=notes.append)


@pytest.mark.parametrize(
    ("optimizer", "dtype"), [("adamw", "float32"), ("adamw8bit", "bfloat16"), ("adamw8bit", "float16")]
)
def test_a_state_comes_back_bit_by_bit_with_what_was_stored_beside_it(store, notes, optimizer, dtype):
    state = a_state(3, optimizer, dtype)
    # A float that is no number has many bit patterns, and each is kept as it is.
    odd = np.array([np.nan, -np.nan, -0.0, np.inf, 1e-45], "float32")
    state = state._replace(scale=state.scale._replace(scale=jnp.asarray(odd)))
    assert store.save(3, state, EXTRA)
    restored = store.restore(shapes_of(state))
    assert (restored.step, restored.extra) == (3, EXTRA)
    assert_same_bits(restored.state, state)
    codes = {str(leaf.dtype) for leaf in jax.tree.leaves(state.optimizer)}
    assert ("uint8" in codes) == (optimizer == "adamw8bit")
    assert store.header().extra == EXTRA
    assert store.header().shape == SHAPE
    assert notes == []


def test_a_checkpoint_with_an_embedding_in_32_bits_is_refused_by_name(store):
    """As `adamw8bit` wrote it before embeddings were in 8 bits, too; this one is so for being small."""
    state = a_state(3)
    store.save(3, state, EXTRA)
    adam = state.optimizer[1]
    coded = Coded(jnp.zeros((1, 40, 32), jnp.uint8), jnp.zeros((1, 40)))
    mean, deviation = (
        eqx.tree_at(lambda tree: tree.embedding, moment, coded) for moment in (adam.mean, adam.deviation)
    )
    now = state.optimizer[0], adam._replace(mean=mean, deviation=deviation), *state.optimizer[2:]
    expected = r"has `optimizer\.1\.mean\.embedding` in 32 bits: .*`adamw8bit`"
    with pytest.raises(InputError, match=expected) as error:
        store.restore(shapes_of(state._replace(optimizer=now)))
    assert "finish it with that version" in str(error.value.hint)


def test_nothing_that_could_run_code_is_written(store, tmp_path):
    store.save(1, a_state(1), {})
    names = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert not [name for name in names if name.endswith((".pkl", ".pickle", ".npy", ".npz", ".pt"))]
    for path in tmp_path.rglob("*.json"):
        assert path.read_bytes().lstrip()[:1] == b"{"


def test_the_newest_and_the_best_are_kept(store):
    assert (store.steps(), store.latest(), store.best(), store.header()) == ([], None, None, None)
    for step, metric in [(10, 3.0), (20, 1.0), (30, None), (40, float("nan")), (50, 1.0)]:
        assert store.save(step, a_state(step), {"at": step}, metric=metric)
    assert store.steps() == [20, 40, 50]
    assert (store.latest(), store.best()) == (50, 20)
    assert store.header(20).extra == {"at": 20}
    assert_same_bits(store.restore(shapes_of(a_state(0)), 20).state, a_state(20))
    assert store.header(999) is store.restore(shapes_of(a_state(0)), 30) is None


def test_the_weights_can_be_read_without_the_optimizer(store):
    state = a_state(5)
    store.save(5, state, {"at": 5})
    restored = store.restore_model(shapes_of(state).model)
    assert (store.latest(), store.header().extra) == (5, {"at": 5})
    assert_same_bits(restored, state.model)


def test_the_same_step_again_replaces_what_was_there(store, tmp_path):
    for seed in (1, 2):
        assert store.save(7, a_state(seed), {"seed": seed})
    assert (store.steps(), store.header().extra) == ([7], {"seed": 2})
    assert_same_bits(store.restore(shapes_of(a_state(2))).state, a_state(2))
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["00000007"]


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def largest_file(folder: Path) -> Path:
    return max((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)


DAMAGES = {
    "a flipped bit in an array": lambda folder: flip(largest_file(folder / "arrays")),
    "a torn array": lambda folder: largest_file(folder).open("r+b").truncate(100),
    "an array that is gone": lambda folder: largest_file(folder).unlink(),
    "a flipped bit in the header": lambda folder: flip(folder / HEADER),
    "a torn header": lambda folder: (folder / HEADER).open("r+b").truncate(500),
    "a header of something else": lambda folder: (folder / HEADER).write_text("[1, 2]"),
    "an empty header": lambda folder: (folder / HEADER).write_bytes(b""),
}


@pytest.fixture(scope="module")
def two_steps(tmp_path_factory) -> Path:
    """A folder with the checkpoints of steps 1 and 2; not to be changed."""
    folder = tmp_path_factory.mktemp("two") / "checkpoints"
    store = CheckpointStore(folder, keep=2, note=pytest.fail)
    for step in (1, 2):
        assert store.save(step, a_state(step), {"at": step})
    return folder


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_was_damaged_is_noted_and_the_one_before_is_taken(store, notes, tmp_path, two_steps, damage):
    shutil.copytree(two_steps, tmp_path / "checkpoints")
    DAMAGES[damage](tmp_path / "checkpoints" / "00000002")
    restored = store.restore(shapes_of(a_state(0)))
    assert (restored.step, restored.extra) == (1, {"at": 1})
    assert_same_bits(restored.state, a_state(1))
    assert len(notes) == 1
    assert "the checkpoint of step 2 is damaged and skipped: `" in notes[0]
    assert store.restore(shapes_of(a_state(0)), 2) is None


def test_every_byte_of_a_checkpoint_is_guarded(tmp_path, two_steps):
    folder = tmp_path / "checkpoint"
    shutil.copytree(two_steps / "00000001", folder)
    rng = np.random.default_rng(0)
    for path in [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size]:
        whole = path.read_bytes()
        changed = bytearray(whole)
        changed[rng.integers(len(whole))] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        with pytest.raises(DamagedCheckpoint):
            verify(folder, read_header(folder))
        path.write_bytes(whole)
    verify(folder, read_header(folder))


def test_a_folder_without_a_header_is_no_checkpoint(store, tmp_path, two_steps):
    shutil.copytree(two_steps, tmp_path / "checkpoints")
    (tmp_path / "checkpoints" / "00000002" / HEADER).unlink()
    assert store.steps() == [1]


def test_another_model_is_refused_and_both_sizes_are_named(two_steps, notes):
    store = CheckpointStore(two_steps, keep=2, note=notes.append)
    other = shapes_of(a_state(1))
    larger = jax.ShapeDtypeStruct((41, 32), jnp.float32)
    other = other._replace(model=Transformer(larger, other.model.layers, other.model.final_norm, SHAPE))
    with pytest.raises(
        InputError, match=r"`model.embedding` is float32 of \[40, 32\], float32 of \[41, 32\]"
    ):
        store.restore(other)
    with pytest.raises(
        InputError, match=r"of another model or optimizer: `optimizer\.1\.count` is not there"
    ):
        store.restore(shapes_of(a_state(1, "adamw")))


def test_what_a_killed_run_left_is_tidied_by_the_next_one_that_writes(tmp_path, two_steps, notes):
    folder = tmp_path / "checkpoints"
    shutil.copytree(two_steps, folder)
    # Killed while step 3 was written, and between the two renames that replace step 2.
    (folder / ".00000003.abcdef01.krill-tmp" / "arrays").mkdir(parents=True)
    (folder / "00000002").rename(folder / ".00000002.replaced")
    store = CheckpointStore(folder, keep=3, note=notes.append)
    assert store.steps() == [1]
    assert store.restore(shapes_of(a_state(0))).step == 2
    assert sorted(path.name for path in folder.iterdir()) == ["00000001", "00000002"]
    assert notes == []


SPREAD = """
import sys
from pathlib import Path
import jax, numpy as np
from test_training_checkpoints import a_state, assert_same_bits
from krill.training.checkpoints import CheckpointStore
from krill.training.mesh import make_devices

placement, state = make_devices("fsdp", 4), a_state(3)
where = placement.state(jax.eval_shape(lambda: state))
spread = jax.device_put(state, where)
assert any(not leaf.sharding.is_fully_replicated for leaf in jax.tree.leaves(spread))
store = CheckpointStore(Path(sys.argv[1]), keep=1, note=print)
assert store.save(3, spread, {})
like = jax.tree.map(
    lambda leaf, place: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place), state, where
)
again = store.restore(like).state
for leaf, place in zip(jax.tree.leaves(again), jax.tree.leaves(where), strict=True):
    assert leaf.sharding.is_equivalent_to(place, leaf.ndim)
assert_same_bits(again, state)
"""


def test_a_state_that_is_spread_over_devices_comes_back_on_them_and_on_one(tmp_path, notes):
    done = subprocess.run(
        [sys.executable, "-c", SPREAD, str(tmp_path / "spread")],
        env={
            **os.environ,
            "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4",
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    store = CheckpointStore(tmp_path / "spread", keep=1, note=notes.append)
    assert_same_bits(store.restore(shapes_of(a_state(3))).state, a_state(3))
