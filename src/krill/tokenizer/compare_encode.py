"""Our encoder beside its peers: the same tokenizer, the same documents, a process of its own for each.

In: a `tokenizer.json` and a plain text file, which is cut into documents. Out: for each encoder the seconds
that loading and encoding took, its true peak (VmHWM), its tokens, and of how many documents its ids are not
ours. The budget holds for ours; peers take none. Held in memory: two blocks of hashes; those of all
documents, eight bytes each, are in a temporary folder.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from krill.tokenizer.compare import (
    OURS,
    OursFailed,
    ProgramTrial,
    check_names,
    check_plain_text,
    peer_fault,
    run_peer,
)
from krill.tokenizer.peers import DIGEST, ENCODERS
from krill.tokenizer.tokenizer_file import tokenizer_file

ENCODE_PEERS: Final = tuple(name for name in ENCODERS if name != OURS)


@dataclass(frozen=True, slots=True)
class EncodeTrial(ProgramTrial):
    """How one encoder did."""

    load: float = 0.0
    tokens: int = 0
    differing: int = 0
    """Documents whose ids are not ours."""


@dataclass(frozen=True, slots=True)
class EncodeComparison:
    """All trials over one file, ours first."""

    tokenizer: Path
    file: Path
    bytes: int
    documents: int
    threads: int
    trials: tuple[EncodeTrial, ...]

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "command": "tokenizer compare",
            "tokenizer": str(self.tokenizer),
            "input": str(self.file),
            "input_bytes": self.bytes,
            "documents": self.documents,
            "threads": self.threads,
            "encoders": [trial.to_json(partial(self._figures, trial)) for trial in self.trials],
        }

    def _figures(self, trial: EncodeTrial) -> dict[str, Any]:
        return {
            "load_seconds": round(trial.load, 3),
            "seconds": round(trial.seconds, 3),
            "bytes_per_second": int(self.bytes / trial.seconds),
            "tokens": trial.tokens,
            "peak": trial.peak,
            "differing_documents": trial.differing,
        }


def compare_encoders(
    tokenizer: Path,
    file: Path,
    *,
    threads: int,
    memory: str | int = "auto",
    peers: Sequence[str] = ENCODE_PEERS,
    python: Path | None = None,
    each: Callable[[EncodeTrial], None] = lambda trial: None,
) -> EncodeComparison:
    """Encode with ours, then with each of `peers`; `python` and `each` as in `compare.compare`."""
    check_names("encoder", peers, ENCODE_PEERS)
    size = check_plain_text(file)
    found = tokenizer_file(tokenizer)
    arguments = ["--encode", str(found), "--input", str(file), "--threads", str(threads)]
    arguments += ["--memory", str(memory)]
    with tempfile.TemporaryDirectory(prefix="krill-compare-") as folder:
        ours = Path(folder) / OURS
        trials = [_encode_with(OURS, arguments, ours, ours, None)]
        each(trials[0])
        for name in peers:
            trials.append(_encode_with(name, arguments, Path(folder) / "peer", ours, python))
            each(trials[-1])
        documents = ours.stat().st_size // DIGEST
    return EncodeComparison(found, file, size, documents, threads, tuple(trials))


def _encode_with(
    name: str, arguments: Sequence[str], hashes: Path, ours: Path, python: Path | None
) -> EncodeTrial:
    done, found = run_peer(name, [*arguments, "--hashes", str(hashes)], python)
    if done.returncode and name == OURS:
        raise OursFailed(done.returncode, done.stderr.decode("utf-8", "replace"))
    fault, remedy = peer_fault(name, done, found)
    if fault is not None:
        return EncodeTrial(name, fault=fault, remedy=remedy)
    return EncodeTrial(name, differing=differing_hashes(ours, hashes), **found)


def differing_hashes(left: Path, right: Path, block: int = 8192 * DIGEST) -> int:
    """How many hashes of two files are not the same, those that only one has included."""
    count = 0
    with left.open("rb") as ours, right.open("rb") as theirs:
        while True:
            one, other = ours.read(block), theirs.read(block)
            if not one and not other:
                return count
            if one != other:
                starts = range(0, max(len(one), len(other)), DIGEST)
                count += sum(one[at : at + DIGEST] != other[at : at + DIGEST] for at in starts)
