"""From the config's `tokenizer:` to an encoder, and what that encoder will hold.

A `tokenizer.json` that is byte-level BPE with a known pattern is run by the native core; every other one by
Hugging Face's library, and the run says why.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from krill.budget import Kind, Need, Plan
from krill.errors import ConfigError, InputError, MissingExtra
from krill.tokenizer.byte import ByteEncoder
from krill.tokenizer.declared import DECLARATIONS, file_fingerprint, read_tokenizer_file
from krill.tokenizer.document_errors import outside_vocabulary
from krill.tokenizer.encoder import Encoder
from krill.tokenizer.outline import Held, Outline, outline_of
from krill.tokenizer.tokenizer_json import NativeSpec, NotNative, read_spec, why_not_native

if TYPE_CHECKING:
    from krill.config import TokenizerConfig
    from krill.tokenizer.huggingface import HuggingFaceEncoder
    from krill.tokenizer.native import NativeEncoder

WORD_CACHE: Final = "word cache"
BY_HUGGING_FACE: Final = "encoding by Hugging Face"


def encoder_needs(config: TokenizerConfig, max_document_bytes: int, threads: int = 1) -> list[Need]:
    """What the plan must set aside for the tokenizer of this config."""
    if config.builtin is not None:
        return []
    return file_needs(_file(config), max_document_bytes, threads)


def file_needs(file: Path, max_document_bytes: int, threads: int) -> list[Need]:
    """The same for a tokenizer file, of which no more than an outline is read."""
    outline = outline_of(file)
    if _why_not_native(file) is None:
        return _native_needs(outline.native(), max_document_bytes, threads)
    return _library_needs(outline, max_document_bytes, threads)


def open_encoder(config: TokenizerConfig, plan: Plan | None = None, threads: int = 1) -> Encoder:
    """The encoder of this config, for up to `threads` threads, with its shares of the plan; else small."""
    if config.builtin is not None:
        return ByteEncoder()
    return open_file(_file(config), plan, threads)


def open_file(file: Path, plan: Plan | None, threads: int) -> NativeEncoder | HuggingFaceEncoder:
    """The same for a tokenizer file."""
    spec = _spec(file)
    _specs.cache_clear()  # the encoder has tables of its own
    if isinstance(spec, NotNative):
        from krill.tokenizer.huggingface import HuggingFaceEncoder

        limit = 0 if plan is None else plan.limit
        library = HuggingFaceEncoder(file, share_of(plan, BY_HUGGING_FACE), spec.reason, limit)
        if library.vocab_size == 0:  # what the native core runs has a token for each byte
            raise InputError(
                f"the tokenizer `{file}` has no tokens",
                hint="restore its file, or train one: krill tokenizer train",
            )
        return library
    outside = next((each for each in (*spec.post.prefix, *spec.post.suffix) if each >= spec.vocab_size), None)
    if outside is not None:
        raise outside_vocabulary(str(file), outside, spec.vocab_size)
    from krill import _native
    from krill.tokenizer.native import LEAST_CACHE, NativeEncoder

    cache = share_of(plan, WORD_CACHE) or LEAST_CACHE * threads
    encoder = NativeEncoder(file, file_fingerprint(file), spec, cache, threads)
    _native.trim()  # what reading the file took
    return encoder


def fallback_notice(config: TokenizerConfig) -> str | None:
    """A line for people where the native encoder can't be used: what happens instead, and why."""
    if config.builtin is not None:
        return None
    reason = _why_not_native(_file(config))
    if reason is None:
        return None
    return f"the tokenizer is run by Hugging Face's library, many times slower, because {reason}"


def tokenizer_fingerprint(config: TokenizerConfig) -> str:
    """What the tokenizer is, by content: a part of a run's identity."""
    if config.builtin is not None:
        return str(ByteEncoder().describe()["fingerprint"])
    return file_fingerprint(_file(config))


def tokenizer_files(config: TokenizerConfig) -> list[Path]:
    """The tokenizer's file, and those beside it that say which tokens are special; none if it is built in."""
    if config.builtin is not None:
        return []
    file = _file(config)
    return [file, *(path for name in DECLARATIONS if (path := file.parent / name).is_file())]


def tokenizer_file(path: str | Path) -> Path:
    """The `tokenizer.json` at a path: itself, or the one in that folder."""
    file = Path(path) / "tokenizer.json" if Path(path).is_dir() else Path(path)
    if not file.is_file():
        raise InputError(
            f"no tokenizer at `{path}`",
            hint="set `tokenizer.path` to a tokenizer.json or its folder, or `tokenizer.builtin: bytes`",
        )
    return file


def _why_not_native(file: Path) -> str | None:
    """Why the library has to run a tokenizer, from its outline where that is enough."""
    outline = outline_of(file)
    reason = why_not_native(outline)
    if reason is None and outline.may_lack_bytes:
        spec = _spec(file)
        return spec.reason if isinstance(spec, NotNative) else None
    return reason


def share_of(plan: Plan | None, name: str) -> int:
    """A share of the plan; 0 without one, or where a file turned out to be another kind than its outline."""
    if plan is None or name not in (share.name for share in plan.shares):
        return 0
    return plan.share(name)


def _native_needs(held: Held, max_document_bytes: int, threads: int) -> list[Need]:
    from krill.tokenizer import native

    return [
        Need("tokenizer", held.always),
        Need("reading the tokenizer", held.reading - held.always, Kind.WATCHED, during="start"),
        Need(
            WORD_CACHE,
            native.LEAST_CACHE * threads,
            useful=native.USEFUL_CACHE * threads,
            during="encode",
        ),
        Need(
            "a document that is one word",
            max_document_bytes * native.MERGED_PER_BYTE,
            expected=0,
            during="encode",
            remedy="set preprocess.max_document_bytes lower (it is the longest word that is merged)",
        ),
    ]


def _library_needs(outline: Outline, max_document_bytes: int, threads: int) -> list[Need]:
    from krill.tokenizer.huggingface import GROUP_BYTES, EncodingCost

    held, cost = outline.library(), EncodingCost.of(outline)
    return [
        Need("tokenizer", held.always, Kind.WATCHED),
        Need("reading the tokenizer", held.reading - held.always, Kind.WATCHED, during="start"),
        Need(
            BY_HUGGING_FACE,
            cost.typical(max_document_bytes),
            Kind.WATCHED,
            useful=cost.most(max_document_bytes) * threads,
            expected=cost.typical(GROUP_BYTES) * 2,
            during="encode",
            remedy="set preprocess.max_document_bytes lower (it is the longest text encoded at once)",
        ),
    ]


def _spec(file: Path) -> NativeSpec | NotNative:
    """What the file is; remembered from the plan to the opening."""
    beside = [file, *(file.parent / name for name in DECLARATIONS)]
    states = [path.stat() if path.is_file() else None for path in beside]
    return _specs(file, tuple(state and (state.st_size, state.st_mtime_ns) for state in states))


@lru_cache(maxsize=1)
def _specs(file: Path, state: object) -> NativeSpec | NotNative:
    return read_spec(file, read_tokenizer_file(file))


def _file(config: TokenizerConfig) -> Path:
    path = config.local_path
    if path is None and config.hub_id is not None:
        return _from_hub(config.hub_id)
    if path is None:
        raise ConfigError(
            "the config names no tokenizer",
            hint="set `tokenizer.path` to a tokenizer.json or its folder, or `tokenizer.builtin: bytes`",
        )
    return tokenizer_file(path)


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
