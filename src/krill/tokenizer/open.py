"""From the config's `tokenizer:` to an encoder, and what that encoder will hold.

A `tokenizer.json` is run by the native core; by Hugging Face's library where something in it has no native
form, and the run says what.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from krill.budget import Kind, Need, Plan
from krill.errors import InputError
from krill.tokenizer.byte import ByteEncoder
from krill.tokenizer.encoder import Encoder, FileEncoder, outside_vocabulary
from krill.tokenizer.outline import Outline, outline_of
from krill.tokenizer.tokenizer_file import config_file, file_fingerprint
from krill.tokenizer.tokenizer_json import NotNative, fallback_reason, forget_spec, native_spec

if TYPE_CHECKING:
    from krill.config import TokenizerConfig

WORD_CACHE: Final = "word cache"
BY_HUGGING_FACE: Final = "encoding by Hugging Face"


def encoder_needs(
    config: TokenizerConfig, max_document_bytes: int, threads: int = 1, busy: int | None = None
) -> list[Need]:
    """What the plan must set aside for the tokenizer of this config; so many threads will be `busy`."""
    if config.builtin is not None:
        return []
    return file_needs(config_file(config), max_document_bytes, threads, busy)


def file_needs(file: Path, max_document_bytes: int, threads: int, busy: int | None = None) -> list[Need]:
    """The same for a tokenizer file, of which no more than an outline is read."""
    outline = outline_of(file)
    if fallback_reason(file) is None:
        return _native_needs(outline, max_document_bytes, threads, threads if busy is None else busy)
    return _library_needs(outline, max_document_bytes, threads)


def open_encoder(config: TokenizerConfig, plan: Plan | None = None, threads: int = 1) -> Encoder:
    """The encoder of this config, for up to `threads` threads, with its shares of the plan; else small."""
    if config.builtin is not None:
        return ByteEncoder()
    return open_file(config_file(config), plan, threads)


def open_file(file: Path, plan: Plan | None, threads: int) -> FileEncoder:
    """The same for a tokenizer file."""
    spec = native_spec(file)
    forget_spec()
    if isinstance(spec, NotNative):
        from krill.tokenizer.huggingface import HuggingFaceEncoder

        limit = 0 if plan is None else plan.limit
        library = HuggingFaceEncoder(file, share_of(plan, BY_HUGGING_FACE), spec.reason, limit)
        _check_tokens(file, library.vocab_size)
        return library
    _check_tokens(file, spec.vocab_size)
    outside = next((each for each in (*spec.post.prefix, *spec.post.suffix) if each >= spec.vocab_size), None)
    if outside is not None:
        raise outside_vocabulary(str(file), outside, spec.vocab_size)
    from krill import _native
    from krill.tokenizer.native import LEAST_CACHE, NativeEncoder

    cache = share_of(plan, WORD_CACHE) or LEAST_CACHE * threads
    encoder = NativeEncoder(file, file_fingerprint(file), spec, cache, threads)
    _native.trim()  # what reading the file took
    return encoder


def _check_tokens(file: Path, count: int) -> None:
    if count == 0:
        raise InputError(
            f"the tokenizer `{file}` has no tokens",
            hint="restore its file, or train one: krill tokenizer train",
        )


def fallback_notice(config: TokenizerConfig) -> str | None:
    """A notice where the native encoder can't be used: what happens instead, and why."""
    if config.builtin is not None:
        return None
    reason = fallback_reason(config_file(config))
    if reason is None:
        return None
    return f"the tokenizer is run by Hugging Face's library, many times slower, because {reason}"


def tokenizer_fingerprint(config: TokenizerConfig) -> str:
    """What the tokenizer is, by content: a part of a run's identity."""
    if config.builtin is not None:
        return str(ByteEncoder().describe()["fingerprint"])
    return file_fingerprint(config_file(config))


def share_of(plan: Plan | None, name: str) -> int:
    """A share of the plan; 0 without one, or where a file turned out to be another kind than its outline."""
    if plan is None or name not in (share.name for share in plan.shares):
        return 0
    return plan.share(name)


def _native_needs(outline: Outline, max_document_bytes: int, threads: int, busy: int) -> list[Need]:
    from krill.tokenizer.native import LEAST_CACHE, MERGED_PER_BYTE, NORMALISED_PER_BYTE, USEFUL_CACHE

    held = outline.native()
    longest = max_document_bytes * threads * NORMALISED_PER_BYTE if outline.rewrites else 0
    return [
        *([Need("normalised documents", longest, expected=0, during="encode")] if longest else []),
        Need("tokenizer", held.always),
        Need("reading the tokenizer", held.reading - held.always, Kind.WATCHED, during="start"),
        Need(
            WORD_CACHE,
            LEAST_CACHE * threads,
            useful=USEFUL_CACHE * threads,
            expected=lambda share: share * busy // threads,  # a thread has its own when it first encodes
            during="encode",
        ),
        Need(
            "a document that is one word",
            max_document_bytes * MERGED_PER_BYTE,
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
