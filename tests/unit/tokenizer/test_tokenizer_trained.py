"""What a training hands on."""

from hypothesis import given
from hypothesis import strategies as st

from krill.tokenizer.options import TrainOptions
from krill.tokenizer.vocabulary import TrainedBpe, initial_ids


def test_tokens_are_spelt_as_files_spell_them():
    trained = TrainedBpe(TrainOptions(special_tokens=("<é>",)), ["<é>".encode(), b" ", b"a", b" a"], 1, 2, [])
    assert [trained.text(identity) for identity in range(4)] == ["<é>", "Ġ", "a", "Ġa"]


@given(
    text=st.binary(max_size=20),
    special=st.lists(st.sampled_from(["a", "Ġ", "<s>", "é", "ab"]), unique=True, max_size=3),
    limit=st.none() | st.integers(1, 8),
    tie_break=st.sampled_from(["huggingface", "greatest"]),
)
def test_the_id_of_each_byte_is_found_again_from_the_tokens_alone(text, special, limit, tie_break):
    options = TrainOptions(
        special_tokens=tuple(special), initial_alphabet="seen", limit_alphabet=limit, tie_break=tie_break
    )
    tokens, ids = initial_ids([text.count(byte) for byte in range(256)], options)
    trained = TrainedBpe(options, tokens, len(special), len(tokens) - len(special), [])
    assert trained.byte_ids() == ids
