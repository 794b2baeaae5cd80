"""COMPAT, BPE training: the whole trainer against Hugging Face's own, token for token and merge for merge.

`documents` is what its `train_from_iterator` makes of the documents, once special tokens are cut out of them;
`lines` is what its `train` makes of a plain text file.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from itertools import islice

import orjson
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

import krill
from jobs import json_lines
from krill.threads.progress import Silent
from krill.tokenizer.count import WordCounts
from krill.tokenizer.merge import merge
from krill.tokenizer.options import TrainOptions
from krill.tokenizer.patterns import PATTERNS, pre_tokenizer
from real_text import real_texts
from word_count_files import byte_counts, write_word_counts

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


def test_text_without_spaces_equals_the_peers_under_any_budget(tmp_path):
    """Pages that are one word each, and caps that hold the words but few of the places of their pairs."""
    chance = random.Random(1)
    letters = [chr(0x4E00 + chance.randrange(20_902)) for _ in range(3000)]
    ranks = [1 / (rank + 5) for rank in range(3000)]
    pages = ["".join(chance.choices(letters, ranks, k=chance.randint(300, 1500))) for _ in range(120)]
    pages += pages[::9]
    corpus = write_corpus(tmp_path, pages)
    options = TrainOptions(vocab_size=1000, pattern="cl100k")
    peers = trained_by_peer(corpus, "documents", pattern="cl100k", vocab_size=1000)
    for threads in (1, 2):
        ours = trained_by_krill(
            corpus, tmp_path, "documents", pattern="cl100k", vocab_size=1000, threads=threads, overwrite=True
        )
        assert ours["merges"] == peers["merges"]
        assert ours["vocab"] == peers["vocab"]
    ids = peers["vocab"]
    expected = [(ids[left], ids[right], ids[left + right]) for left, right in peers["merges"]]
    counts = Counter(page.encode() for page in pages)
    file = write_word_counts(tmp_path / "word-counts", counts)
    words = WordCounts(file, len(counts), len(pages), 1, tuple(byte_counts(counts)), 0)
    held = 2 * sum(len(word) * 65 // 64 + 1 for word in counts)
    ways = []
    for share in (0.9, 1.08, 1.15, 1.3, 2, 20):
        trained, statistics = merge(words, options, int(1000 * 260 + held * share), Silent())
        assert trained.merges == expected
        ways.append((statistics["on_disk"], statistics["postings"] > 0))
    assert ways[0] == (True, False)
    assert ways.count((False, True)) >= 2
    assert not ways[-1][0]
