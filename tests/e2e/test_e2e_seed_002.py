"""COMPAT, as typed: every code block of the guide to memory-efficient BPE training, on a small corpus."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from krill.compat.bpe import BPE, merges_of, vocabulary_of
from krill.tokenizer.files import load_trained
from krill.tokenizer.options import TrainOptions
from oracles.tokenizer import count_words, train
from real_text import real_texts

ROOT = Path(__file__).resolve().parents[2]
SEED = ROOT.parent / "shared" / "seeds" / "002_bpe_training.md"
END = "<|endoftext|>"

# What each block is, in order. An `inside` shows how the original read files: nothing to type.
KINDS = ("train", "compare", "train", "inside", "options", "options", "options", "class")


def blocks() -> list[tuple[str, str]]:
    """Language and content of every fenced block; none where the guide is absent."""
    if not SEED.exists():
        return []
    return re.findall(r"^```(\w+)\n(.*?)^```$", SEED.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def blocks_that_are(kind: str) -> list[str]:
    return [content for (_, content), what in zip(blocks(), KINDS, strict=False) if what == kind]


pytestmark = pytest.mark.skipif(not SEED.exists(), reason="the guide is not here")


@pytest.fixture(scope="module")
def documents():
    # Every size that the guide names is more than these hold, so that all of them is merged.
    return [text[:400] for text in islice(real_texts(), 5)]


@pytest.fixture
def folder(tmp_path, documents):
    """A working folder with the scripts and, where the guide has its corpora, the small one."""
    shutil.copytree(ROOT / "examples" / "seeds", tmp_path, dirs_exist_ok=True)
    for name in ("data/TinyStoriesV2-GPT4-train.txt", "tests/fixtures/tinystories_sample.txt"):
        corpus = tmp_path / name
        corpus.parent.mkdir(parents=True)
        corpus.write_text(END.join(documents), encoding="utf-8", newline="")
    return tmp_path


def run(folder: Path, *command: str) -> str:
    """What a command prints; it must succeed."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def expected(documents, vocab_size, special_tokens=(END,)):
    options = TrainOptions(vocab_size=vocab_size, special_tokens=tuple(special_tokens), tie_break="greatest")
    return train(count_words([END.join(documents)], "gpt2", special_tokens), options)


def check_trained(folder: Path, prefix: str, wanted) -> None:
    """Both files and the folder of a prefix hold the tokenizer that the readable trainer makes."""
    tokenizer = BPE()
    tokenizer.load(folder / "trainings" / prefix)
    assert tokenizer.vocabulary == vocabulary_of(wanted)
    assert tokenizer.merges == merges_of(wanted)
    assert load_trained(folder / "trainings" / prefix) == wanted


def test_every_block_is_of_a_known_kind():
    found = blocks()
    assert len(found) == len(KINDS)
    for (language, content), kind in zip(found, KINDS, strict=True):
        assert language == ("python" if kind in ("inside", "class") else "bash")
        script = {"train": "train_memory_efficient.py", "compare": "memory_comparison.py"}.get(kind)
        assert (f"python {script} " in content) == (script is not None)


@pytest.mark.parametrize("number", range(len(blocks_that_are("train"))))
def test_training_commands_run_as_typed(folder, documents, number):
    block = blocks_that_are("train")[number]
    run(folder, "bash", "-euc", block)
    size, prefix = re.search(r"--vocab-size (\d+)", block)[1], re.search(r"--output-prefix (\w+)", block)[1]
    special = re.findall(r'"(<[^"]+>)"', block) or [END]
    check_trained(folder, prefix, expected(documents, int(size), special))


@pytest.mark.parametrize("number", range(len(blocks_that_are("compare"))))
def test_comparing_commands_run_as_typed_and_tell_time_and_peak(folder, number):
    printed = run(folder, "bash", "-euc", blocks_that_are("compare")[number])
    assert re.search(r"krill .*\d+(\.\d+)? ?s", printed, re.IGNORECASE), printed
    assert re.search(r"krill .*\d+ MB", printed, re.IGNORECASE), printed
    assert "tokenizers" in printed


@pytest.mark.parametrize("number", range(len(blocks_that_are("options"))))
def test_recommended_settings_complete_a_training_command(folder, documents, number):
    lines = blocks_that_are("options")[number].splitlines()
    options = " ".join(line.split("#")[0].strip() for line in lines)
    corpus = "data/TinyStoriesV2-GPT4-train.txt"
    run(folder, "bash", "-euc", f"python train_memory_efficient.py --input {corpus} {options}")
    size = int(re.search(r"--vocab-size (\d+)", options)[1])
    check_trained(folder, "memory_efficient", expected(documents, size))


@pytest.mark.parametrize("number", range(len(blocks_that_are("class"))))
def test_the_class_is_found_under_its_older_names_and_does_what_the_guide_says(folder, documents, number):
    # "All other APIs remain the same (save, load, vocabulary, merges)."
    rest = f"""
tokenizer.train(
    input_path="data/TinyStoriesV2-GPT4-train.txt", vocab_size=300, special_tokens=[{END!r}], num_processes=2
)
tokenizer.save("trainings/mine_tokenizer.pkl")
tokenizer.save_vocabulary("trainings/mine_vocabulary.json")
tokenizer.save_merges("trainings/mine_merges.txt")
again = BPE()
again.load("trainings/mine_tokenizer.pkl")
assert (again.vocabulary, again.merges) == (tokenizer.vocabulary, tokenizer.merges)
again.load_vocabulary("trainings/mine_vocabulary.json")
again.load_merges("trainings/mine_merges.txt")
assert (again.vocabulary, again.merges) == (tokenizer.vocabulary, tokenizer.merges)
print(type(tokenizer).__name__, again.decode(again.encode("some text")))
"""
    (folder / "trainings").mkdir()
    printed = run(folder, "python", "-c", blocks_that_are("class")[number] + rest)
    assert printed.splitlines()[-1] == "MemoryEfficientBPE some text"
    tokenizer = BPE()
    tokenizer.load(folder / "trainings" / "mine")
    assert tokenizer.vocabulary == vocabulary_of(expected(documents, 300))


def test_every_file_that_the_guide_lists_is_there(folder):
    listed = re.findall(r"^- `([\w/]+\.py)` - ", SEED.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(listed) == 4
    assert [name for name in listed if not (folder / name).is_file()] == []


def test_the_words_are_counted_under_the_older_name(folder, documents):
    program = f"""
from tokenizer.pretokenization_mmap import pretokenize_mmap
counts = pretokenize_mmap("data/TinyStoriesV2-GPT4-train.txt", [{END!r}], 2)
assert all(len(byte) == 1 for word in counts for byte in word)
print({{b"".join(word): count for word, count in counts.items()}})
"""
    expected_counts = count_words([END.join(documents)], "gpt2", [END])
    assert ast.literal_eval(run(folder, "python", "-c", program)) == expected_counts


def test_flags_that_were_not_typed_have_the_scripts_own_defaults(folder, documents):
    run(folder, "python", "train_memory_efficient.py", "--input=data/TinyStoriesV2-GPT4-train.txt")
    check_trained(folder, "memory_efficient", expected(documents, 10000))
