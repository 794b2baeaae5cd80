"""Our trainer beside its peers: the same file, the same vocabulary size, a process of its own for each.

In: a plain text file. Out: for each trainer the seconds from the start of its process to the end of training,
its true peak (VmHWM), and how far its vocabulary is ours. Ours is the command itself, with the budget; peers
take none. Held in memory: the tokens of two vocabularies.

They run one after the other. A peer that is not installed or fails is listed with what to do about it, and
stops nothing.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import orjson

import krill
from krill.corpus.formats import Format, as_plain_text, recognise
from krill.errors import ConfigError, InputError, KrillError
from krill.tokenizer import peers as peer_runner
from krill.tokenizer.peers import PEERS

OURS = "krill"
SPECIAL_TOKENS = ("<|endoftext|>",)


@dataclass(frozen=True, slots=True)
class ProgramTrial:
    """How one program did; `fault` says why there is nothing to say."""

    name: str
    version: str = ""
    seconds: float = 0.0
    peak: int = 0
    fault: str | None = field(default=None, kw_only=True)
    remedy: str | None = field(default=None, kw_only=True)

    def to_json(self, figures: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        """For `--json`: the `figures` if it has any."""
        if self.fault is not None:
            return {"name": self.name, "fault": self.fault, "remedy": self.remedy}
        return {"name": self.name, "version": self.version, **figures()}


@dataclass(frozen=True, slots=True)
class Trial(ProgramTrial):
    """How one trainer did."""

    tokens: tuple[bytes, ...] | None = None
    """What it merged, in order; None where its vocabulary is of another kind."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """All trials over one file, ours first."""

    file: Path
    bytes: int
    vocab_size: int
    threads: int
    trials: tuple[Trial, ...]

    @property
    def ours(self) -> Trial:
        """What the others are compared with."""
        return self.trials[0]

    def to_json(self) -> dict[str, Any]:
        """For `--json`: figures and ratios, without the vocabularies."""
        return {
            "command": "tokenizer compare",
            "input": str(self.file),
            "input_bytes": self.bytes,
            "vocab_size": self.vocab_size,
            "threads": self.threads,
            "trainers": [trial.to_json(partial(self._figures, trial)) for trial in self.trials],
        }

    def _figures(self, trial: Trial) -> dict[str, Any]:
        return {
            "seconds": round(trial.seconds, 3),
            "bytes_per_second": int(self.bytes / trial.seconds),
            "peak": trial.peak,
            "times_our_seconds": round(trial.seconds / self.ours.seconds, 3),
            "times_our_peak": round(trial.peak / self.ours.peak, 3),
            "vocabulary": vocabulary_beside(self.ours, trial),
        }


def compare(
    file: Path,
    *,
    vocab_size: int,
    threads: int,
    memory: str | int = "auto",
    special_tokens: Sequence[str] = SPECIAL_TOKENS,
    peers: Sequence[str] = tuple(PEERS),
    python: Path | None = None,
    each: Callable[[Trial], None] = lambda trial: None,
) -> Comparison:
    """Train with ours, then with each of `peers`; `python` is the interpreter that has them, if not this one.

    `each` is called with every trial as it ends.
    """
    check_names("trainer", peers, PEERS)
    size = check_plain_text(file)
    trials = [train_ours(file, vocab_size, threads, memory, special_tokens)]
    each(trials[0])
    for name in peers:
        trials.append(train_peer(name, file, vocab_size, threads, special_tokens, python=python))
        each(trials[-1])
    return Comparison(file, size, vocab_size, threads, tuple(trials))


def check_names(kind: str, peers: Sequence[str], known: Iterable[str]) -> None:
    """Refuse a peer that nobody knows."""
    unknown = [name for name in peers if name not in known]
    if unknown:
        raise ConfigError(
            f"there is no {kind} `{unknown[0]}` to compare with", hint=f"choose from {', '.join(known)}"
        )


def check_plain_text(file: Path) -> int:
    """The file's size, if it is one that every trainer reads alike."""
    if not file.is_file():
        raise InputError(f"no such file: `{file}`", hint="compare reads one plain text file")
    kind, compression = recognise(str(file)) or as_plain_text(str(file))
    if kind is not Format.TEXT or compression is not None:
        raise InputError(
            f"`{file}` is not plain text, and the peers read nothing else",
            hint="write its text into a .txt file and compare on that",
        )
    size = file.stat().st_size
    if size == 0:
        raise InputError(f"`{file}` is empty", hint="there is nothing in it to compare on: check the path")
    return size


def train_ours(
    file: Path,
    vocab_size: int,
    threads: int,
    memory: str | int,
    special_tokens: Sequence[str] = SPECIAL_TOKENS,
) -> Trial:
    """The command as a user runs it, by lines as most peers do; its own refusal is raised here too."""
    with tempfile.TemporaryDirectory(prefix="krill-compare-") as folder:
        output = Path(folder) / "tokenizer"
        command = [sys.executable, "-m", "krill", "tokenizer", "train", "--json", "--quiet"]
        command += ["--input", str(file), "--output", str(output), "--vocab-size", str(vocab_size)]
        command += ["--threads", str(threads), "--memory", str(memory), "--boundaries", "lines"]
        command += ["--special-tokens", *special_tokens] if special_tokens else []
        begun = time.monotonic()
        done = subprocess.run(command, capture_output=True, check=False)
        seconds = time.monotonic() - begun
        if done.returncode:
            raise OursFailed(done.returncode, done.stderr.decode("utf-8", "replace"))
        peak = int(orjson.loads(done.stdout)["budget"]["measured_peak"])
        return Trial(OURS, krill.__version__, seconds, peak, _merged_tokens(output))


def train_peer(
    name: str,
    file: Path,
    vocab_size: int,
    threads: int,
    special_tokens: Sequence[str] = SPECIAL_TOKENS,
    *,
    python: Path | None = None,
) -> Trial:
    """One peer, in a process that holds nothing of ours."""
    arguments = ["--input", str(file), "--vocab-size", str(vocab_size), "--threads", str(threads)]
    done, found = run_peer(
        name, [*arguments, *(f"--special-token={token}" for token in special_tokens)], python
    )
    fault, remedy = peer_fault(name, done, found)
    if fault is not None:
        return Trial(name, fault=fault, remedy=remedy)
    tokens = None if found["tokens"] is None else tuple(bytes.fromhex(token) for token in found["tokens"])
    return Trial(name, found["version"], found["seconds"], found["peak"], tokens)


def run_peer(
    name: str, arguments: Sequence[str], python: Path | None
) -> tuple[subprocess.CompletedProcess[bytes], dict[str, Any]]:
    """How its process ended, and what it reported."""
    with tempfile.TemporaryDirectory(prefix="krill-compare-") as folder:
        report = Path(folder) / "report.json"
        # As a file, and without its folder on the path: the process imports the peer and nothing of Krill's.
        command = [str(python or sys.executable), "-P", peer_runner.__file__, name, *arguments]
        command += ["--report", str(report), "--begun", repr(time.monotonic())]
        try:
            done = subprocess.run(command, capture_output=True, check=False)
        except OSError as error:
            raise ConfigError(
                f"can't run `{python}`: {error.strerror}", hint="name the interpreter that has the peers"
            ) from None
        return done, {} if done.returncode else orjson.loads(report.read_bytes())


def peer_fault(
    name: str, done: subprocess.CompletedProcess[bytes], found: dict[str, Any]
) -> tuple[str | None, str | None]:
    """Why a peer has no figures and what to do about it, if it has none."""
    if done.returncode:
        return _reason(done.returncode, done.stderr.decode("utf-8", "replace")), None
    return ("not installed", f"pip install {name}") if "missing" in found else (None, None)


def vocabulary_beside(ours: Trial, other: Trial) -> str:
    """How far another trainer made the tokens that we made, in words."""
    if other is ours:
        return "ours"
    if ours.tokens is None or other.tokens is None:
        return "another kind"
    both = min(len(ours.tokens), len(other.tokens))
    same = next((i for i in range(both) if ours.tokens[i] != other.tokens[i]), both)
    if same == both:
        more = "" if len(ours.tokens) == len(other.tokens) else f" in the {both:,} that both made"
        return "the same merges" + more
    common = len(set(ours.tokens) & set(other.tokens)) / max(1, both)
    return f"the first {same:,} merges the same, {common:.1%} of all"


def _merged_tokens(folder: Path) -> tuple[bytes, ...]:
    from krill.tokenizer.files import load_trained

    trained = load_trained(folder)
    return tuple(trained.tokens[new] for _, _, new in trained.merges)


def _reason(code: int, errors: str) -> str:
    """The last thing that a process said, or how it ended."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    if code < 0:
        return f"ended by signal {-code}" + (" (out of memory?)" if code == -9 else "")
    return lines[-1] if lines else f"exit code {code}"


class OursFailed(KrillError):
    """Our own side ended with an error: said as it said it, with its code."""

    def __init__(self, code: int, errors: str) -> None:
        message, _, hint = errors.strip().removeprefix("error: ").partition("\nhint: ")
        super().__init__(message or f"Krill ended with exit code {code}", hint=hint or None)
        self.exit_code = code if code > 0 else 128 - code
