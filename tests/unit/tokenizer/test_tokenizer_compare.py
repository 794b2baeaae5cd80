"""Peers in their own processes, and how their vocabularies are described."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from krill.errors import ConfigError, InputError
from krill.tokenizer import peers
from krill.tokenizer.compare import (
    Comparison,
    Trial,
    check_plain_text,
    compare,
    train_peer,
    vocabulary_beside,
)

VOCAB_SIZE = 280


@pytest.fixture
def text(tmp_path: Path) -> Path:
    file = tmp_path / "corpus.txt"
    file.write_text(
        "a krill in the sea, krill in the ice\nand a whale, <|endoftext|> who sees the krill\n" * 50
    )
    return file


def test_hugging_face_trains_in_a_process_of_its_own(text: Path) -> None:
    trial = train_peer("tokenizers", text, VOCAB_SIZE, threads=1)
    assert (trial.name, trial.fault) == ("tokenizers", None)
    assert 0 < trial.seconds < 60
    assert 10**7 < trial.peak < 10**9
    assert trial.tokens is not None
    # The special token and 256 bytes are not merged; `<|endoftext|>` is text like any other to this trainer.
    assert len(trial.tokens) == VOCAB_SIZE - 257
    assert b" krill" in trial.tokens


def test_a_peer_is_charged_with_nothing_of_krills(text: Path) -> None:
    job = f"peers.PeerJob({str(text)!r}, {VOCAB_SIZE}, 1, [])"
    program = (
        f"import sys; sys.path.insert(0, {str(Path(peers.__file__).parent)!r}); import peers; "
        f"peers.train_tokenizers({job}); print(sorted(m for m in sys.modules if m.split('.')[0] in "
        "('krill', 'numpy', 'pyarrow')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.skipif(find_spec("rustbpe") is not None, reason="rustbpe is installed")
def test_a_peer_that_is_not_installed_is_listed_with_how_to_get_it(text: Path) -> None:
    trial = train_peer("rustbpe", text, VOCAB_SIZE, threads=1)
    assert (trial.fault, trial.remedy) == ("not installed", "pip install rustbpe")


def test_a_peer_that_fails_is_listed_with_its_reason(tmp_path: Path) -> None:
    trial = train_peer("tokenizers", tmp_path / "absent.txt", VOCAB_SIZE, threads=1)
    assert trial.fault is not None
    assert "No such file" in trial.fault


def test_an_interpreter_that_is_none_is_an_error(text: Path) -> None:
    with pytest.raises(ConfigError, match="can't run `/absent/python`"):
        train_peer("tokenizers", text, VOCAB_SIZE, threads=1, python=Path("/absent/python"))


def test_an_unknown_peer_is_an_error_that_names_the_known_ones(text: Path) -> None:
    with pytest.raises(ConfigError, match="no trainer `minbpe`") as caught:
        compare(text, vocab_size=VOCAB_SIZE, threads=1, peers=["minbpe"])
    assert caught.value.hint == "choose from tokenizers, gigabpe, gigatoken, rustbpe, sentencepiece"


@pytest.mark.parametrize(
    ("name", "content", "fact"),
    [
        ("a.jsonl", b"{}", "is not plain text"),
        ("a.txt.gz", b"x", "is not plain text"),
        ("a.txt", b"", "is empty"),
    ],
)
def test_only_plain_text_is_compared(tmp_path: Path, name: str, content: bytes, fact: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=fact):
        check_plain_text(tmp_path / name)


def test_plain_text_may_have_any_other_ending(tmp_path: Path) -> None:
    (tmp_path / "corpus.dat").write_bytes(b"four")
    assert check_plain_text(tmp_path / "corpus.dat") == 4


def trial(*tokens: bytes | None, name: str = "peer", **figures: float) -> Trial:
    known = tuple(token for token in tokens if token is not None)
    return Trial(name, "1.0", figures.get("seconds", 1.0), int(figures.get("peak", 10)), known or None)


@pytest.mark.parametrize(
    ("other", "described"),
    [
        (trial(b"ab", b"cd", b"ef"), "the same merges"),
        (trial(b"ab", b"cd"), "the same merges in the 2 that both made"),
        (trial(b"ab", b"ef", b"xy"), "the first 1 merges the same, 66.7% of all"),
        (trial(None), "another kind"),
    ],
)
def test_vocabularies_are_compared_in_words(other: Trial, described: str) -> None:
    assert vocabulary_beside(trial(b"ab", b"cd", b"ef"), other) == described


def test_the_result_has_figures_and_ratios_to_ours() -> None:
    ours = trial(b"ab", name="krill", seconds=2.0, peak=100)
    slow = trial(b"ab", name="slow", seconds=5.0, peak=300)
    absent = Trial("absent", fault="not installed", remedy="pip install absent")
    facts = Comparison(Path("a.txt"), 4_000_000, 300, 2, (ours, slow, absent)).to_json()
    assert facts["trainers"][0]["vocabulary"] == "ours"
    assert facts["trainers"][1] == {
        "name": "slow",
        "version": "1.0",
        "seconds": 5.0,
        "bytes_per_second": 800_000,
        "peak": 300,
        "times_our_seconds": 2.5,
        "times_our_peak": 3.0,
        "vocabulary": "the same merges",
    }
    assert facts["trainers"][2] == {
        "name": "absent",
        "fault": "not installed",
        "remedy": "pip install absent",
    }
