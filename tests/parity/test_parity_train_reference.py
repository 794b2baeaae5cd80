"""COMPAT, BPE training: the readable trainer against Hugging Face's own, merge for merge.

Tiny alphabets make ties, overlaps and tokens that are spelt like special ones common.
"""

import json
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from krill.tokenizer.options import TrainOptions
from krill.tokenizer.vocabulary import to_text
from oracles.tokenizer import count_words, encode, train
from properties import tried
from real_text import real_texts


def trained_by_huggingface(words, options):
    """The peer's vocabulary and merges for words that each are one pretoken."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    limits = {"limit_alphabet": options.limit_alphabet, "max_token_length": options.max_token_length}
    asked = {
        "bytes": pre_tokenizers.ByteLevel.alphabet(),
        "seen": [],
    }.get(options.initial_alphabet, list(to_text(options.initial_alphabet.encode())))
    trainer = trainers.BpeTrainer(
        vocab_size=options.vocab_size,
        min_frequency=options.min_frequency,
        special_tokens=list(options.special_tokens),
        initial_alphabet=asked,
        show_progress=False,
        **{name: value for name, value in limits.items() if value is not None},
    )
    tokenizer.train_from_iterator(
        [word.decode() for word, count in words.items() for _ in range(count)], trainer
    )
    return saved_model(tokenizer)


def saved_model(tokenizer):
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], [tuple(pair) for pair in model["merges"]]


def model_of(trained):
    vocabulary = {trained.text(identity): identity for identity in range(len(trained.tokens))}
    return vocabulary, [(trained.text(left), trained.text(right)) for left, right, _ in trained.merges]


def words_of(alphabet, longest):
    return st.dictionaries(
        st.text(alphabet, min_size=1, max_size=longest).map(str.encode),
        st.integers(1, 9),
        min_size=1,
        max_size=12,
    )


WORDS = st.one_of(words_of("a", 20), words_of("ab", 30), words_of("abc", 16), words_of("ab é日", 10))
SPECIAL = st.sampled_from([(), ("<s>",), ("a",), ("ab", "<e>"), ("Ġa", "abc", "b"), ("é",), ("aa", "aaaa")])


@tried(240)
@given(
    words=WORDS,
    vocab_size=st.integers(16, 80),
    special_tokens=SPECIAL,
    min_frequency=st.sampled_from([0, 0, 1, 2, 5]),
    max_token_length=st.sampled_from([None, None, 1, 2, 3, 4, 7]),
    initial_alphabet=st.sampled_from(["seen", "z", "ab"]),
)
def test_vocabulary_and_merges_equal_the_peers(words, **chosen):
    options = TrainOptions(**chosen)
    assert model_of(train(words, options)) == trained_by_huggingface(words, options)


@tried(80)
@given(words=words_of("abcdef", 10), limit=st.integers(1, 6), special_tokens=SPECIAL)
def test_a_limited_alphabet_equals_the_peers_where_that_is_determined(words, limit, special_tokens):
    options = TrainOptions(
        vocab_size=60, special_tokens=special_tokens, initial_alphabet="seen", limit_alphabet=limit
    )
    seen = [sum(word.count(letter) * count for word, count in words.items()) for letter in b"abcdef"]
    frequencies = sorted((count for count in seen if count), reverse=True)
    if len(frequencies) > limit and frequencies[limit - 1] == frequencies[limit]:
        return  # the peer drops any of the equally frequent, as its hash table has them
    assert model_of(train(words, options)) == trained_by_huggingface(words, options)


def test_real_text_with_all_bytes_equals_the_peers():
    texts = [text[:4000] for text in islice(real_texts(), 12)]
    options = TrainOptions(vocab_size=400)
    trained = train(count_words(texts, "gpt2"), options)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    assert model_of(trained) == saved_model(tokenizer)
    text = texts[0][:2000] + "<|endoftext|>" + texts[-1][:2000]
    assert encode(trained, text) == tokenizer.encode(text).ids
