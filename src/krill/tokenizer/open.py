"""From the config's `tokenizer:` to an encoder, and what that encoder will hold."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from krill.budget import Kind, Need
from krill.errors import ConfigError, InputError, MissingExtra
from krill.tokenizer.byte import ByteEncoder
from krill.tokenizer.encoder import Encoder

if TYPE_CHECKING:
    from krill.config import TokenizerConfig


def encoder_needs(config: TokenizerConfig, max_document_bytes: int) -> list[Need]:
    """What the plan must set aside for the tokenizer of this config; reads no more than file sizes."""
    if config.builtin is not None:
        return []
    from krill.tokenizer.huggingface import GROUP_BYTES, HELD_PER_BYTE, LOADED_PER_BYTE

    longest = max_document_bytes * HELD_PER_BYTE
    typical = GROUP_BYTES * HELD_PER_BYTE * 2
    return [
        Need("tokenizer", _file(config).stat().st_size * LOADED_PER_BYTE, Kind.WATCHED),
        Need(
            "encoding by Hugging Face",
            longest,
            Kind.WATCHED,
            expected=typical,
            during="encode",
            remedy="set preprocess.max_document_bytes lower (it is the longest text encoded at once)",
        ),
    ]


def open_encoder(config: TokenizerConfig, share: int = 0) -> Encoder:
    """The encoder of this config; `share` bounds what encoding holds where it grows with the text."""
    if config.builtin is not None:
        return ByteEncoder()
    from krill.tokenizer.huggingface import HuggingFaceEncoder

    return HuggingFaceEncoder(_file(config), share)


def tokenizer_fingerprint(config: TokenizerConfig) -> str:
    """What the tokenizer is, by content: a part of a run's identity."""
    if config.builtin is not None:
        return str(ByteEncoder().describe()["fingerprint"])
    from krill.tokenizer.huggingface import fingerprint, read_tokenizer_file

    file = _file(config)
    return fingerprint(file, read_tokenizer_file(file))


def _file(config: TokenizerConfig) -> Path:
    if config.hub_id is not None:
        return _from_hub(config.hub_id)
    if config.path is None:
        raise ConfigError(
            "the config names no tokenizer",
            hint="set `tokenizer.path` to a tokenizer.json or its folder, or `tokenizer.builtin: bytes`",
        )
    path = Path(config.path)
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise InputError(
            f"no tokenizer at `{config.path}`",
            hint="set `tokenizer.path` to a tokenizer.json or its folder, or `tokenizer.builtin: bytes`",
        )
    return file


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
            hint="check the id and the connection, or set `tokenizer.path` to a local copy",
        ) from None
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        try:
            hf_hub_download(hub_id, name)
        except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError):
            continue  # neither file is required; EOS then comes from the special tokens
    return file
