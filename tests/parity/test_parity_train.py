"""COMPAT, BPE training: the whole trainer against Hugging Face's own, token for token and merge for merge.

`documents` is what its `train_from_iterator` makes of the documents, once special tokens are cut out of them;
`lines` is what its `train` makes of a plain text file.
"""

from __future__ import annotations

import json
from itertools import islice

import orjson
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

import krill
from jobs import json_lines
from krill.tokenizer.patterns import PATTERNS, pre_tokenizer
from real_text import real_texts

END = "<|endoftext|>"
REGEX = r" ?\p{L}+(?:-\p{L}+)*|\p{N}|[^\p{L}\p{N}]"


def new_peer(pattern):
    """Hugging Face's tokenizer, untrained."""
    empty = {"type": "BPE", "vocab": {}, "merges": []}
    content = orjson.dumps({"version": "1.0", "pre_tokenizer": pre_tokenizer(pattern), "model": empty})
    tokenizer = Tokenizer.from_str(content.decode())
    tokenizer.model = models.BPE()
    return tokenizer


def trained_by_peer(corpus, boundaries, pattern="gpt2", special_tokens=(END,), **options):
    tokenizer = new_peer(pattern)
    trainer = trainers.BpeTrainer(
        special_tokens=list(special_tokens),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
        **options,
    )
    if boundaries == "lines":
        tokenizer.train([str(corpus.with_suffix(".txt"))], trainer)
    else:
        documents = [json.loads(line)["text"] for line in corpus.read_bytes().splitlines()]
        for token in special_tokens:
            documents = [piece for document in documents for piece in document.split(token)]
        tokenizer.train_from_iterator(documents, trainer)
    return json.loads(tokenizer.to_str())["model"]


def trained_by_krill(corpus, folder, boundaries, **options):
    path = corpus.with_suffix(".txt") if boundaries == "lines" else corpus
    krill.tokenizer.train([path], boundaries=boundaries, output=folder / "out", memory="256MB", **options)
    return json.loads((folder / "out" / "tokenizer.json").read_bytes())["model"]


def check_same(corpus, folder, boundaries, **options):
    peers = trained_by_peer(corpus, boundaries, **options)
    ours = trained_by_krill(corpus, folder, boundaries, **options)
    assert ours["merges"] == peers["merges"]
    assert ours["vocab"] == peers["vocab"]
    return ours


def write_corpus(folder, texts):
    """Documents as JSON lines, and beside them as plain text with a special token after each."""
    (folder / "corpus.jsonl").write_bytes(json_lines(texts))
    (folder / "corpus.txt").write_bytes("".join(f"{text}\n{END}\n" for text in texts).encode())
    return folder / "corpus.jsonl"


@pytest.fixture(scope="module")
def part(tmp_path_factory):
    """A document in sixty: half a megabyte in all languages, and some that hold the special token."""
    texts = list(islice(real_texts(), 0, None, 60))
    texts[::9] = [f"{text[:100]}{END}{text[100:]}" for text in texts[::9]]
    return write_corpus(tmp_path_factory.mktemp("part"), texts)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, sample):
    return write_corpus(tmp_path_factory.mktemp("whole"), list(real_texts()))


@pytest.mark.parametrize("boundaries", ["documents", "lines"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_merges_equal_the_peers(part, tmp_path, pattern, boundaries):
    assert len(check_same(part, tmp_path, boundaries, pattern=pattern, vocab_size=3000)["vocab"]) == 3000


@pytest.mark.parametrize("boundaries", ["documents", "lines"])
@pytest.mark.parametrize(
    "options",
    [
        {"pattern": REGEX},
        {"min_frequency": 300},
        {"max_token_length": 5},
        {"special_tokens": ("the", "Ġof", "<s>")},
        {"special_tokens": ()},
    ],
    ids=["regex", "min_frequency", "max_token_length", "special tokens in the text", "no special tokens"],
)
def test_merges_equal_the_peers_with_other_options(part, tmp_path, options, boundaries):
    check_same(part, tmp_path, boundaries, vocab_size=2000, **options)


def test_a_special_token_is_cut_out_of_documents_and_counted_in_lines(part, tmp_path):
    made = {}
    for boundaries in ("documents", "lines"):
        (tmp_path / boundaries).mkdir()
        made[boundaries] = check_same(part, tmp_path / boundaries, boundaries, vocab_size=1500)["vocab"]
    assert "endoftext" in made["lines"]
    assert "endoftext" not in made["documents"]


def test_32000_merges_equal_the_peers(sample, tmp_path):
    corpus = write_corpus(tmp_path, list(islice(real_texts(), 0, None, 6)))
    assert len(check_same(corpus, tmp_path, "documents", vocab_size=32_000)["vocab"]) == 32_000


@pytest.mark.soak
@pytest.mark.parametrize("boundaries", ["documents", "lines"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_32000_merges_of_all_of_the_sample_equal_the_peers(whole, tmp_path, pattern, boundaries):
    assert len(check_same(whole, tmp_path, boundaries, pattern=pattern, vocab_size=32_000)["vocab"]) == 32_000
