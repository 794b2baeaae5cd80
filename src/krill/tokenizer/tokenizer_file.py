"""A tokenizer's file and those beside it: where they are, their content and fingerprint, and the EOS token.

In: the `tokenizer:` of a config or a path, and the files beside it that declare special tokens. Out: paths,
bytes, a fingerprint, EOS. Held in memory: what is asked for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from krill.errors import ConfigError, InputError, MissingExtra
from krill.storage.input_file import open_regular, read_input, read_json

if TYPE_CHECKING:
    from krill.config import TokenizerConfig

# Gemma 3, one of the largest, has 33 MB.
MOST_TOKENIZER: Final = 500_000_000
HINT: Final = "point `tokenizer.path` at a tokenizer.json, or a folder that holds one"
DECLARATIONS: Final = ("tokenizer_config.json", "special_tokens_map.json")
CHAT_TEMPLATE: Final = "chat_template.jinja"
EOS_NAMES: Final = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>")
_CHOOSE: Final = "set `tokenizer.path` to a tokenizer.json or its folder, or `tokenizer.builtin: bytes`"


def tokenizer_file(path: str | Path) -> Path:
    """The `tokenizer.json` at a path: itself, or the one in that folder."""
    file = Path(path) / "tokenizer.json" if Path(path).is_dir() else Path(path)
    if not file.is_file():
        raise InputError(f"no tokenizer at `{path}`", hint=_CHOOSE)
    return file


def config_file(config: TokenizerConfig) -> Path:
    """The file that a config names, which is not built in; from the hub it is downloaded."""
    path = config.local_path
    if path is None and config.hub_id is not None:
        return _from_hub(config.hub_id)
    if path is None:
        raise ConfigError("the config names no tokenizer", hint=_CHOOSE)
    return tokenizer_file(path)


def tokenizer_files(config: TokenizerConfig) -> list[Path]:
    """The tokenizer's file, and those beside it that say which tokens are special and how conversations are
    rendered; none if it is built in."""
    if config.builtin is not None:
        return []
    file = config_file(config)
    return [
        file,
        *(path for name in (*DECLARATIONS, CHAT_TEMPLATE) if (path := file.parent / name).is_file()),
    ]


def read_tokenizer_file(file: Path) -> bytes:
    """The file's bytes, or an error that says what to do."""
    try:
        return read_input(file, MOST_TOKENIZER)
    except OSError as error:
        raise InputError(f"can't read the tokenizer `{file}`: {error.strerror}", hint=HINT) from None


def read_blocks(file: Path, block: int = 1 << 20) -> Iterator[bytes]:
    """The same, block by block."""
    try:
        with open_regular(file) as stream:
            while some := stream.read(block):
                yield some
    except OSError as error:
        raise InputError(f"can't read the tokenizer `{file}`: {error.strerror}", hint=HINT) from None


def file_fingerprint(file: Path) -> str:
    """Of everything that shapes the ids: the tokenizer's content, and EOS and BOS as declared beside it."""
    declared = [token for key in ("eos_token", "bos_token") for token in declared_tokens(file.parent, key)]
    try:
        with open_regular(file) as stream:
            digest = hashlib.file_digest(stream, "sha256")
    except OSError as error:
        raise InputError(f"can't read the tokenizer `{file}`: {error.strerror}", hint=HINT) from None
    digest.update(repr(declared).encode())
    return digest.hexdigest()


def find_eos(
    file: Path, token_to_id: Callable[[str], int | None], special: Collection[str]
) -> tuple[str | None, int | None]:
    """The declared `eos_token`, else the first well-known name among the special tokens, else none."""
    for declared in declared_tokens(file.parent, "eos_token"):
        if declared is not None and token_to_id(declared) is not None:
            return declared, token_to_id(declared)
    token = next((name for name in EOS_NAMES if name in special), None)
    return token, None if token is None else token_to_id(token)


def declared_tokens(folder: Path, key: str) -> list[str | None]:
    """What the files beside a tokenizer declare as its `eos_token` or `bos_token`."""
    return [_declared(folder / name, key) for name in DECLARATIONS]


def _declared(file: Path, key: str) -> str | None:
    try:
        declared = read_json(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        # Without it, another token would end documents, or none.
        fault = error.strerror if isinstance(error, OSError) else f"not JSON ({error})"
        raise InputError(
            f"can't read `{file}`, which declares a tokenizer's special tokens: {fault}",
            hint="restore the file, or take it away",
        ) from None
    value = declared.get(key) if isinstance(declared, dict) else None
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None


def _from_hub(hub_id: str) -> Path:
    """The repository's `tokenizer.json`, with the files that declare its EOS beside it."""
    try:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ImportError:
        raise MissingExtra("a tokenizer from the hub", "hub") from None
    try:
        file = Path(hf_hub_download(hub_id, "tokenizer.json"))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(
            f"can't get `tokenizer.json` of `{hub_id}` from the hub: {reason}",
            hint="check the id and the connection, or set `tokenizer.path` to a local copy:"
            " `krill train-tokenizer CONFIG` trains one there",
        ) from None
    for name in DECLARATIONS:
        try:
            hf_hub_download(hub_id, name)
        except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError):
            continue  # neither file is required; EOS then comes from the special tokens
    return file
