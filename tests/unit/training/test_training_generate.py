"""Generation: what the whole text at once would choose; the same seed the same text; exact text in pieces."""

from __future__ import annotations

import io

import jax
import jax.numpy as jnp
import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from krill.cli.commands import app
from krill.errors import ConfigError, InputError
from krill.model.sizing import ModelShape
from krill.model.transformer import Transformer
from krill.tokenizer import ByteEncoder
from krill.training.decoding import (
    DecodingSizes,
    SampledTokens,
    Sampling,
    compile_programs,
    draw,
    find_sizes,
    generate_tokens,
    restrict,
    row_keys,
)
from krill.training.generate import GenerateRequest, TextStream, run_generate
from krill.training.saved_model import save_model
from properties import tried
from tiny_models import tiny_model

pytestmark = pytest.mark.jax

SHAPE = ModelShape(vocab_size=257, width=16, layers=2, heads=2, kv_heads=1, hidden=24)
CONTEXT = 32
GREEDY = Sampling(temperature=0)


@pytest.fixture(scope="module")
def model() -> Transformer:
    # Larger weights than fresh ones, so that choices differ from step to step.
    return tiny_model(SHAPE, 1, scale=0.25)


@pytest.fixture(scope="module")
def saved(model: Transformer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    save_model(folder, model, context=CONTEXT, tokenizer="bytes")
    return folder


@jax.jit
def whole_logits(model: Transformer, ids: jax.Array) -> jax.Array:
    return model.logits(ids)


def reference_greedy(model: Transformer, prompt: list[int], steps: int, sizes: DecodingSizes) -> list[int]:
    """The slow way: the whole text through the model for every token."""
    seen, found = prompt[-(sizes.positions - 1) :], []
    for _ in range(steps):
        padded = np.pad(np.asarray([seen]), ((0, 0), (0, sizes.positions - len(seen))))
        found.append(int(np.asarray(whole_logits(model, padded))[0, len(seen) - 1].argmax()))
        seen = [*seen, found[-1]]
        if len(seen) > sizes.positions:
            seen = seen[-(sizes.positions // 2) :]
    return found


@pytest.mark.parametrize(("prompt", "steps"), [(5, 20), (10, 80), (100, 3), (1, 40)])
def test_greedy_text_is_what_the_whole_text_at_once_gives_also_when_the_context_is_full(model, prompt, steps):
    ids = np.random.default_rng(0).integers(0, 256, prompt).tolist()
    # The same sizes for all, so that they share what is compiled.
    sizes = DecodingSizes(samples=2, read=CONTEXT, positions=CONTEXT)
    programs = compile_programs(SHAPE, sizes, GREEDY)
    found = list(generate_tokens(model, programs, ids, seed=0, max_tokens=steps))
    expected = reference_greedy(model, ids, steps, sizes)
    assert [int(chosen.tokens[0]) for chosen in found] == expected
    assert [int(chosen.tokens[1]) for chosen in found] == expected
    assert len(set(expected)) > 1


def test_the_same_seed_gives_the_same_tokens_and_another_one_others(model):
    sizes = find_sizes(prompt=3, max_tokens=40, samples=2, context=CONTEXT)
    programs = compile_programs(SHAPE, sizes, Sampling(temperature=1.0))

    def tokens(seed: int) -> np.ndarray:
        steps = generate_tokens(model, programs, [1, 2, 3], seed=seed, max_tokens=40)
        return np.stack([chosen.tokens for chosen in steps], axis=1)

    first = tokens(7)
    assert (first == tokens(7)).all()
    assert (first[0] != first[1]).any()
    assert (first != tokens(8)).any()


def test_a_sample_is_the_same_however_many_there_are():
    few, many = (jax.random.key_data(row_keys(7, count)) for count in (2, 5))
    assert (few == many[:2]).all()


def test_sizes_are_rounded_up_so_that_similar_prompts_share_programs():
    assert find_sizes(prompt=5, max_tokens=20, samples=1, context=256) == DecodingSizes(1, 16, 32)
    assert find_sizes(prompt=9, max_tokens=22, samples=1, context=256) == DecodingSizes(1, 16, 32)
    # What does not fit slides: then half of the context must be read at once.
    assert find_sizes(prompt=5, max_tokens=500, samples=3, context=256) == DecodingSizes(3, 128, 256)
    assert find_sizes(prompt=999, max_tokens=1, samples=1, context=100) == DecodingSizes(1, 100, 100)
    assert find_sizes(prompt=4, max_tokens=4, samples=1, context=2) == DecodingSizes(1, 2, 2)
    with pytest.raises(ConfigError, match="`0` samples of `5` tokens"):
        find_sizes(prompt=1, max_tokens=5, samples=0, context=10)


def drawn_many(shares: list[float], temperature: float) -> tuple[np.ndarray, SampledTokens]:
    """How often each of four tokens was drawn of 4,000 times, and the draws."""
    logits = jnp.tile(jnp.log(jnp.asarray([shares])), (4000, 1))
    drawn = jitted_draw(logits, row_keys(3, 4000), jnp.asarray(0), Sampling(temperature=temperature))
    return np.bincount(np.asarray(drawn.tokens), minlength=4) / 4000, drawn


jitted_draw = jax.jit(draw, static_argnums=3)


def test_draws_follow_the_distribution_and_tell_its_entropy():
    expected = np.asarray([0.5, 0.25, 0.125, 0.125])
    shares, drawn = drawn_many(expected.tolist(), 1.0)
    np.testing.assert_allclose(shares, expected, atol=0.03)
    np.testing.assert_allclose(drawn.entropy, 1.75, atol=1e-5)
    np.testing.assert_allclose(drawn.probability, expected[np.asarray(drawn.tokens)], atol=1e-6)
    # A temperature of 2 takes the square root of every share; probability and entropy stay the model's own.
    shares, drawn = drawn_many(expected.tolist(), 2.0)
    np.testing.assert_allclose(shares, np.sqrt(expected) / np.sqrt(expected).sum(), atol=0.03)
    np.testing.assert_allclose(drawn.entropy, 1.75, atol=1e-5)


def test_entropy_is_a_number_where_a_token_is_impossible():
    shares, drawn = drawn_many([0.5, 0.0, 0.5, 0.0], 1.0)
    np.testing.assert_allclose(drawn.entropy, 1.0, atol=1e-5)
    assert shares[1] == shares[3] == 0


def reference_restrict(logits: list[float], top_k: int | None, top_p: float | None) -> set[int]:
    """Which tokens stay, by sorting."""
    order = sorted(range(len(logits)), key=lambda token: -logits[token])[: top_k or None]
    shares = np.exp(np.asarray([logits[token] for token in order], np.float64))
    shares /= shares.sum()
    kept, total = set(), 0.0
    for token, share in zip(order, shares, strict=True):
        if top_p is not None and total >= top_p:
            break
        kept.add(token)
        total += share
    return kept


@tried(40)
@given(
    seed=st.integers(0, 2**16),
    top_k=st.sampled_from([None, 1, 4, 500]),
    top_p=st.sampled_from([None, 0.05, 0.7]),
)
def test_what_is_left_after_top_k_and_top_p_is_what_sorting_leaves(seed, top_k, top_p):
    logits = np.random.default_rng(seed).normal(0, 2, 12).astype(np.float32)
    left = np.asarray(restrict(jnp.asarray(logits[None]), top_k, top_p))[0]
    kept = reference_restrict(logits.tolist(), top_k, top_p)
    assert set(np.flatnonzero(np.isfinite(left)).tolist()) == kept
    assert all(left[token] == logits[token] for token in kept)


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"temperature": -1.0}, "a temperature of `-1.0`"),
        ({"temperature": float("nan")}, "a temperature of `nan`"),
        ({"top_k": 0}, "`top_k` is `0`"),
        ({"top_p": 1.5}, "`top_p` is `1.5`"),
    ],
)
def test_settings_that_make_no_sense_are_refused(options, fault):
    with pytest.raises(ConfigError, match=fault):
        Sampling(**options)


@tried(60)
@given(text=st.text(max_size=12), noise=st.binary(max_size=6), place=st.integers(0, 40))
def test_pieces_of_text_are_together_the_whole_text_and_break_no_character(text, noise, place):
    encoded = text.encode()
    ids = [*encoded[:place], *noise, *encoded[place:]]
    decode = lambda some: ByteEncoder().decode(np.asarray(some, np.int64))  # noqa: E731
    stream = TextStream(decode)
    pieces = [stream.add(identity) for identity in ids] + [stream.end()]
    assert "".join(pieces) == decode(ids)
    if not noise and "\ufffd" not in text:
        assert all("\ufffd" not in piece for piece in pieces)


def test_a_decoder_that_drops_the_first_space_of_a_text_loses_none_in_pieces():
    words = {0: " a", 1: " b", 2: "c"}
    stream = TextStream(lambda ids: "".join(words[identity] for identity in ids).removeprefix(" "))
    assert [stream.add(identity) for identity in (0, 1, 2, 1)] == ["a", " b", "c", " b"]


def test_a_generation_tells_every_token_and_its_text(saved):
    heard = []
    request = GenerateRequest(saved, "Größe", max_tokens=40, seed=3, temperature=1.0, samples=2)
    done = run_generate(request, on_token=heard.append)
    assert done.prompt_tokens == 7
    for number, sample in enumerate(done.samples):
        assert [token.id for token in heard if token.sample == number] == [
            token["id"] for token in sample.tokens
        ]
        assert "".join(token.shown for token in heard if token.sample == number) == sample.text
        ids = [token["id"] for token in sample.tokens if token["id"] != 256]
        assert ByteEncoder().decode(np.asarray(ids, np.int64)) == sample.text
        assert sample.end == ("eos" if sample.tokens[-1]["id"] == 256 else "length")
        assert all(0 < token["probability"] <= 1 and token["entropy"] >= 0 for token in sample.tokens)
    assert done.notes == [
        "the model was trained on 32 tokens: whenever these are full, it goes on from the last 16"
    ]
    assert done.budget["measured_peak"] > 0
    assert run_generate(request).samples == done.samples


def test_a_sample_ends_where_the_model_ends_it(model, tmp_path):
    # Layers that add nothing: what is expected after a token is whatever looks most like it.
    layers = jax.tree.map(jnp.zeros_like, model.layers)
    embedding = model.embedding.at[256].set(100 * model.embedding[ord(".")])
    ending = Transformer(embedding, layers, jnp.ones_like(model.final_norm), SHAPE)
    save_model(tmp_path, ending, context=CONTEXT, tokenizer="bytes")
    request = GenerateRequest(tmp_path, "A sentence comes here.", max_tokens=25, temperature=0, samples=2)
    for sample in run_generate(request).samples:
        assert (sample.text, sample.end, [token["id"] for token in sample.tokens]) == ("", "eos", [256])


def test_an_empty_prompt_is_refused(saved, model):
    with pytest.raises(InputError, match="the prompt is empty"):
        run_generate(GenerateRequest(saved, ""))
    programs = compile_programs(SHAPE, DecodingSizes(2, CONTEXT, CONTEXT), GREEDY)
    with pytest.raises(InputError, match="the prompt has no token"):
        next(generate_tokens(model, programs, [], seed=0, max_tokens=1))


@pytest.fixture
def command(capsys):
    """`krill` in this process, which has compiled everything already: what it printed, and to stderr."""

    def run(*words: str) -> tuple[str, str]:
        app(words, exit_on_error=False, print_error=False)
        return capsys.readouterr()

    return run


SETTINGS = ["--max-tokens", "40", "--seed", "3", "--temperature", "1.0"]


def test_the_command_prints_the_text_and_nothing_else(saved, command, monkeypatch):
    request = GenerateRequest(saved, "Größe", max_tokens=40, seed=3, temperature=1.0)
    (sample,) = run_generate(request).samples
    out, err = command("generate", str(saved), "--prompt", "Größe", *SETTINGS)
    assert out == sample.text + "\n"
    assert err.startswith("notice: the model was trained on 32 tokens: whenever these are full")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("Größe".encode())))
    assert command("inference", str(saved), *SETTINGS, "--quiet") == (out, "")


def test_the_command_shows_samples_and_looks_inside(saved, command):
    words = ["generate", str(saved), "--prompt", "Größe", *SETTINGS, "--samples", "2", "--quiet"]
    told = orjson.loads(command(*words, "--json")[0])
    first, second = told["samples"]
    assert told["prompt_tokens"] == 7
    assert first["text"] != second["text"]
    out, _ = command(*words)
    assert out == (
        f"--- sample 1: {len(first['tokens'])} tokens\n{first['text']}\n"
        f"--- sample 2: {len(second['tokens'])} tokens\n{second['text']}\n"
    )
    out, _ = command(*words, "--inspect")
    lines = [line for line in out.splitlines() if not line.startswith("---")]
    assert len(lines) == len(first["tokens"]) + len(second["tokens"])
    token = first["tokens"][0]
    assert lines[0] == f"{token['probability']:8.2%} {token['entropy']:6.2f} bits  {token['text']!r}"
