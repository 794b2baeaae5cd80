"""`MemoryEfficientBPE`: a trainer as a class, by the course's convention, with files that an editor opens.

In: a text file. Out: a vocabulary (id to bytes) and merges (pairs of bytes). Held in memory: what the budget
allows while it trains, then the vocabulary.

Special tokens are borders in the text and never counted; their ids come first, then the 256 bytes in order,
then merges; of equally frequent pairs the lexicographically greatest is merged. Two files hold it all: a JSON
object from id to token, each byte as the character of that code point, and a list of merges in the characters
of byte-level BPE, where a space or a line break inside a token can't be taken for one between tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import orjson

from krill.errors import ConfigError, InputError
from krill.storage.atomic import encode_json, make_folder, write_bytes
from krill.storage.input_file import read_input
from krill.tokenizer.options import TrainOptions
from krill.tokenizer.vocabulary import TrainedBpe, to_bytes, to_text

if TYPE_CHECKING:
    from krill.tokenizer.tokenizer import Tokenizer

Vocabulary = dict[int, bytes]
Merges = list[tuple[bytes, bytes]]

DEFAULT_FOLDER: Final = Path("trainings")
_HEADER: Final = "#version: 0.2"
# `.pkl` is what older scripts say. What is written there is JSON all the same, and pickles are never read.
_ONE_FILE: Final = (".json", ".pkl")


class MemoryEfficientBPE:
    """Byte-pair encoding, trained within a memory budget.

    >>> tokenizer = MemoryEfficientBPE()
    >>> tokenizer.train(input_path="corpus.txt", vocab_size=10000, memory="512MB")  # doctest: +SKIP
    True
    """

    def __init__(self) -> None:
        self._vocabulary: Vocabulary | None = None
        self._merges: Merges | None = None

    def train(
        self,
        *,
        input_path: str | Path,
        vocab_size: int = 10000,
        special_tokens: Sequence[str] = (),
        num_processes: int | str = "auto",
        memory: str | int = "auto",
    ) -> bool:
        """Trains on a file; `num_processes` are threads. Returns True; what fails is raised."""
        from krill.tokenizer.training import train

        summary = train(
            [str(input_path)],
            vocab_size=vocab_size,
            special_tokens=tuple(special_tokens),
            tie_break="greatest",
            boundaries="documents",
            memory=memory,
            threads=num_processes,
        )
        self._take(vocabulary_of(summary.trained), merges_of(summary.trained))
        return True

    @property
    def vocabulary(self) -> Vocabulary:
        if self._vocabulary is None:
            raise _untrained("vocabulary")
        return self._vocabulary

    @property
    def merges(self) -> Merges:
        if self._merges is None:
            raise _untrained("merges")
        return self._merges

    def save(self, path: str | Path) -> None:
        """A path that ends in `.json` or `.pkl` is one file, a `tokenizer.json`; any other is a prefix.

        The prefix `X` writes `trainings/X_vocabulary.json`, `trainings/X_merges.txt` and the folder
        `trainings/X` with `tokenizer.json` and its companions; `some/folder/X` writes them there.
        """
        from krill.tokenizer.files import save, tokenizer_json

        path = Path(path)
        if path.suffix in _ONE_FILE:
            write_bytes(path, encode_json(tokenizer_json(self._trained)))
        else:
            folder = _folder_of(path)
            save_prefixed(self._trained, path.name, folder)
            save(self._trained, folder / path.name)

    def load(self, path: str | Path) -> None:
        """Reads what `save` wrote for the same path."""
        from krill.tokenizer.files import load_trained

        path = Path(path)
        if path.suffix in _ONE_FILE:
            trained = load_trained(path)
            self._take(vocabulary_of(trained), merges_of(trained))
        else:
            vocabulary_file, merges_file = _prefixed(_folder_of(path), path.name)
            self._take(_read_vocabulary(vocabulary_file), _read_merges(merges_file))

    def save_vocabulary(self, path: str | Path) -> None:
        """A JSON object: id to token."""
        write_bytes(path, _vocabulary_json(self.vocabulary))

    def load_vocabulary(self, path: str | Path) -> None:
        self._take(_read_vocabulary(Path(path)), self._merges)

    def save_merges(self, path: str | Path) -> None:
        """A line for each merge: two tokens with a space between."""
        write_bytes(path, _merges_text(self.merges))

    def load_merges(self, path: str | Path) -> None:
        self._take(self._vocabulary, _read_merges(Path(path)))

    def encode(self, text: str) -> list[int]:
        """The ids of a text; special tokens in it are found."""
        ids: list[int] = self._encoder.encode(text).tolist()
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids; bytes that are no UTF-8 show as U+FFFD."""
        try:
            return b"".join(self.vocabulary[identity] for identity in ids).decode("utf-8", "replace")
        except KeyError as unknown:
            raise InputError(
                f"the id {unknown} is not in the vocabulary of {len(self.vocabulary):,} tokens",
                hint="decode with the tokenizer that encoded the text",
            ) from None

    def _take(self, vocabulary: Vocabulary | None, merges: Merges | None) -> None:
        self._vocabulary, self._merges = vocabulary, merges
        for made_from_them in ("_trained", "_encoder"):
            self.__dict__.pop(made_from_them, None)

    @cached_property
    def _trained(self) -> TrainedBpe:
        return trained_from(self.vocabulary, self.merges)

    @cached_property
    def _encoder(self) -> Tokenizer:
        from krill.tokenizer.files import save
        from krill.tokenizer.tokenizer import load

        with TemporaryDirectory(prefix="krill-") as folder:
            save(self._trained, Path(folder))
            return load(folder)


BPE = MemoryEfficientBPE


def save_prefixed(trained: TrainedBpe, prefix: str, folder: Path = DEFAULT_FOLDER) -> list[Path]:
    """Writes `PREFIX_vocabulary.json` and `PREFIX_merges.txt` into the folder, which is made if need be."""
    vocabulary_file, merges_file = _prefixed(folder, prefix)
    make_folder(folder)
    write_bytes(vocabulary_file, _vocabulary_json(vocabulary_of(trained)))
    write_bytes(merges_file, _merges_text(merges_of(trained)))
    return [vocabulary_file, merges_file]


def vocabulary_of(trained: TrainedBpe) -> Vocabulary:
    return dict(enumerate(trained.tokens))


def merges_of(trained: TrainedBpe) -> Merges:
    return [(trained.tokens[left], trained.tokens[right]) for left, right, _ in trained.merges]


def trained_from(vocabulary: Vocabulary, merges: Merges) -> TrainedBpe:
    """The tokenizer that a vocabulary and its merges are: special tokens, 256 bytes, one token a merge."""
    special = len(vocabulary) - 256 - len(merges)
    tokens = [vocabulary.get(identity, b"") for identity in range(len(vocabulary))]
    ids = {token: special + at for at, token in enumerate(tokens[max(special, 0) :])}
    if special < 0 or sorted(tokens[special : special + 256]) != [bytes([byte]) for byte in range(256)]:
        raise InputError(
            f"a vocabulary of {len(vocabulary):,} tokens and {len(merges):,} merges don't belong together: "
            "there must be special tokens, 256 bytes, and then one token for each merge",
            hint="load both files of one training",
        )
    try:
        numbered = [(ids[left], ids[right], ids[left + right]) for left, right in merges]
        names = tuple(token.decode("utf-8") for token in tokens[:special])
    except KeyError as unknown:
        raise InputError(
            f"a merge names the token {unknown}, which the vocabulary doesn't have",
            hint="load both files of one training",
        ) from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"the special token {error.object!r} is not UTF-8", hint="restore the file"
        ) from None
    options = TrainOptions(vocab_size=len(tokens), special_tokens=names, tie_break="greatest")
    return TrainedBpe(options, tokens, special, 256, numbered)


def _folder_of(path: Path) -> Path:
    return DEFAULT_FOLDER if path.parent == Path() else path.parent


def _prefixed(folder: Path, prefix: str) -> tuple[Path, Path]:
    return folder / f"{prefix}_vocabulary.json", folder / f"{prefix}_merges.txt"


def _vocabulary_json(vocabulary: Vocabulary) -> bytes:
    return encode_json({str(identity): token.decode("latin-1") for identity, token in vocabulary.items()})


def _merges_text(merges: Merges) -> bytes:
    lines = (f"{to_text(left)} {to_text(right)}\n" for left, right in merges)
    return f"{_HEADER}\n{''.join(lines)}".encode()


def _read_vocabulary(file: Path) -> Vocabulary:
    content = _read(file, "vocabulary")
    try:
        stored = orjson.loads(content)
        vocabulary = {int(identity): token.encode("latin-1") for identity, token in stored.items()}
    except (ValueError, AttributeError) as error:
        raise _damaged(file, f"not a JSON object from id to token ({error})") from None
    if sorted(vocabulary) != list(range(len(vocabulary))):
        raise _damaged(file, f"the ids of its {len(vocabulary):,} tokens don't run from 0 on")
    return vocabulary


def _read_merges(file: Path) -> Merges:
    try:
        # Only line breaks part lines: a token's characters are all printable, but `splitlines` knows more.
        lines = _read(file, "merges").decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise _damaged(file, f"not UTF-8 ({error})") from None
    if lines[-1] or len(lines) == 1:
        raise _damaged(file, "its last line has no end, so a part is missing")
    header = 1 if lines[0].startswith("#version") else 0
    merges: Merges = []
    for number, line in enumerate(lines[header:-1], header + 1):
        pair = [to_bytes(token) for token in line.split(" ")]
        if len(pair) != 2 or not pair[0] or not pair[1]:
            raise _damaged(file, f"line {number} is not two tokens with a space between")
        merges.append((pair[0], pair[1]))
    return merges


def _read(file: Path, what: str) -> bytes:
    try:
        return read_input(file)
    except OSError as error:
        raise InputError(
            f"can't read the {what} `{file}`: {error.strerror}",
            hint="name the same file or prefix that was saved",
        ) from None


def _damaged(file: Path, fault: str) -> InputError:
    return InputError(f"`{file}` is damaged: {fault}", hint="restore it, or train and save anew")


def _untrained(what: str) -> ConfigError:
    return ConfigError(f"this tokenizer has no {what} yet", hint="call `train(...)` or `load(...)` first")
