"""A trained tokenizer on disk, in the files that the ecosystem reads.

In: a `TrainedBpe`. Out: `tokenizer.json` for Hugging Face `tokenizers` and `transformers`, `vocab.json` and
`merges.txt` for older readers, `tokenizer_config.json` with the end-of-text token, the chat template and the
options of the training, and on request `tokenizer.tiktoken`, a rank file. And back again. The same tokenizer
gives the same bytes. Held in memory: the vocabulary as Python objects and one file's text; a vocabulary of
100,000 took 35 MB more while it was written, 11 MB for 32,000.
"""

from __future__ import annotations

import base64
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import orjson

from krill.errors import ConfigError, InputError
from krill.storage.atomic import encode_json, make_folder, write_bytes
from krill.storage.input_file import read_input
from krill.tokenizer.options import TrainOptions
from krill.tokenizer.patterns import pre_tokenizer, recognise
from krill.tokenizer.presets import CHAT_TEMPLATE, check_chat
from krill.tokenizer.tokenizer_file import EOS_NAMES, MOST_TOKENIZER
from krill.tokenizer.vocabulary import TrainedBpe, to_bytes

TOKENIZER_FILE: Final = "tokenizer.json"
CONFIG_FILE: Final = "tokenizer_config.json"
RANK_FILE: Final = "tokenizer.tiktoken"
VOCABULARY_FILE: Final = "vocab.json"
MERGES_FILE: Final = "merges.txt"
WRITTEN_FILES: Final = (TOKENIZER_FILE, VOCABULARY_FILE, MERGES_FILE, CONFIG_FILE, RANK_FILE)
# Where the options of the training stand in `tokenizer_config.json`; transformers carries unknown keys along.
OPTIONS_KEY: Final = "krill_training"

_PICKLE: Final = b"\x80"
_BYTE_LEVEL: Final = {
    "type": "ByteLevel",
    "add_prefix_space": False,
    "trim_offsets": False,
    "use_regex": False,
}


def save(trained: TrainedBpe, folder: Path, *, tiktoken: bool = False, chat: bool = False) -> list[Path]:
    """Writes the tokenizer's files into `folder`, which is made if need be; returns their paths."""
    content = {
        TOKENIZER_FILE: encode_json(tokenizer_json(trained)),
        VOCABULARY_FILE: orjson.dumps(_vocabulary(trained)),
        MERGES_FILE: _merges_text(trained).encode("utf-8"),
        CONFIG_FILE: encode_json(_config(trained, chat)),
    }
    if tiktoken:
        content[RANK_FILE] = _rank_file(trained)
    make_folder(folder)
    for name, data in content.items():
        write_bytes(folder / name, data)
    return [folder / name for name in content]


def push_tokenizer(folder: Path, repo_id: str, *, private: bool = False, endpoint: str | None = None) -> str:
    """Upload the tokenizer in `folder` to the Hugging Face hub; returns the repository's address.

    `krill-run.json` is not uploaded: it names the machine's paths.
    """
    from krill.storage.hub import push_files

    if not (folder / TOKENIZER_FILE).is_file():
        raise InputError(
            f"no tokenizer at `{folder}`", hint="train one there first: krill tokenizer train --output ..."
        )
    return push_files(
        folder,
        WRITTEN_FILES,
        repo_id,
        message="Tokenizer trained with Krill",
        private=private,
        endpoint=endpoint,
    )


def tokenizer_json(trained: TrainedBpe) -> dict[str, Any]:
    """The content of a `tokenizer.json`."""
    texts = [trained.text(token_id) for token_id in range(len(trained.tokens))]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": token_id,
                "content": texts[token_id],
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for token_id in range(trained.special)
        ],
        "normalizer": None,
        "pre_tokenizer": pre_tokenizer(trained.options.pattern),
        "post_processor": _BYTE_LEVEL,
        "decoder": _BYTE_LEVEL,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": _vocabulary(trained),
            "merges": [(texts[left], texts[right]) for left, right, _ in trained.merges],
        },
    }


def check_rank_file(options: TrainOptions) -> None:
    """Whether a training with these options can be written as a rank file."""
    if options.initial_alphabet != "bytes" or (options.limit_alphabet or 256) < 256:
        raise ConfigError(
            "a .tiktoken rank file needs all 256 bytes in the vocabulary",
            hint="leave initial_alphabet at `bytes` and limit_alphabet unset, or don't ask for the rank file",
        )


def _vocabulary(trained: TrainedBpe) -> dict[str, int]:
    """Id by text. Files can't tell two tokens of one spelling apart, so such a vocabulary is refused."""
    vocabulary: dict[str, int] = {}
    for token_id in range(len(trained.tokens)):
        text = trained.text(token_id)
        if vocabulary.setdefault(text, token_id) != token_id:
            raise ConfigError(
                f"the special token `{text}` is spelt like the learnt token {token_id}, and a tokenizer.json "
                "holds only one of them",
                hint="give the special token a name that is not in the text, or use tie_break `huggingface`",
            )
    return vocabulary


def _merges_text(trained: TrainedBpe) -> str:
    lines = (f"{trained.text(left)} {trained.text(right)}\n" for left, right, _ in trained.merges)
    return "#version: 0.2\n" + "".join(lines)


def _config(trained: TrainedBpe, chat: bool) -> dict[str, Any]:
    special = trained.options.special_tokens
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
    }
    eos = next((name for name in EOS_NAMES if name in special), None)
    if eos is not None:
        config["eos_token"] = eos
    if chat:
        check_chat(special)
        config["chat_template"] = CHAT_TEMPLATE
    config[OPTIONS_KEY] = asdict(trained.options)
    return config


def _rank_file(trained: TrainedBpe) -> bytes:
    """A line for each token that is not special: its bytes in base64, its id.

    tiktoken joins whatever two neighbours make the lowest id, whichever pair once made it. That is the same,
    because a trained token is made by one pair alone, and ids grow with ranks.
    """
    check_rank_file(trained.options)
    ids = range(trained.special, len(trained.tokens))
    reused = next((new for _, _, new in trained.merges if new < trained.special), None)
    shared = next((token_id for token_id in trained.byte_ids() if token_id < trained.special), reused)
    if shared is not None:
        raise ConfigError(
            f"the special token `{trained.text(shared)}` is a learnt token too, which a .tiktoken rank file "
            "can't say",
            hint="give the special token a name that is not in the text",
        )
    return b"".join(b"%s %d\n" % (base64.b64encode(trained.tokens[rank]), rank) for rank in ids)


def load_trained(path: Path) -> TrainedBpe:
    """Reads a folder that `save` wrote, or a `tokenizer.json` of that layout, back into what was saved.

    A `tokenizer.json` alone doesn't hold all options; without `tokenizer_config.json` beside it, those that
    shaped only the training are at their defaults.
    """
    file = path / TOKENIZER_FILE if path.is_dir() else path
    document = _read_json(file)
    try:
        model, added = document["model"], document["added_tokens"]
        if model["type"] != "BPE":
            raise _unreadable(file, f"its model is `{model['type']}`, not `BPE`")
        special = [token["content"] for token in sorted(added, key=lambda token: token["id"])]
        texts = _texts_by_id(file, model["vocab"])
        pairs = [tuple(pair.split(" ")) if isinstance(pair, str) else tuple(pair) for pair in model["merges"]]
        section = document["pre_tokenizer"]
        pattern = recognise(section) or str(section["pretokenizers"][0]["pattern"]["Regex"])
    except (KeyError, TypeError, AttributeError) as error:
        raise _unreadable(file, f"a part is missing or of the wrong kind ({error})") from None
    if texts[: len(special)] != special:
        raise _unreadable(file, "its special tokens are not its first ids")
    tokens = [*(text.encode("utf-8") for text in special), *_learnt_tokens(file, texts, len(special))]
    letters = next((at for at, text in enumerate(texts[len(special) :]) if len(text) != 1), None)
    alphabet = len(texts) - len(special) if letters is None else letters
    merges = _merges_by_id(file, pairs, model["vocab"])
    options = _options_beside(file)
    if options is None or (list(options.special_tokens), pre_tokenizer(options.pattern)) != (
        special,
        section,
    ):
        options = TrainOptions(vocab_size=len(tokens), pattern=pattern, special_tokens=tuple(special))
    return TrainedBpe(options, tokens, len(special), alphabet, merges)


def _read_json(file: Path) -> dict[str, Any]:
    try:
        content = read_input(file, MOST_TOKENIZER)
    except OSError as error:
        raise InputError(
            f"can't read the tokenizer `{file}`: {error.strerror}",
            hint="point at a tokenizer.json, or a folder that holds one",
        ) from None
    if content.startswith(_PICKLE):
        raise _unreadable(file, "it is a pickle, and these are never loaded, because they can run code")
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise _unreadable(file, f"not JSON ({error})") from None
    if not isinstance(document, dict):
        raise _unreadable(file, "not a JSON object")
    return document


def _texts_by_id(file: Path, vocabulary: dict[str, int]) -> list[str]:
    texts = sorted(vocabulary, key=vocabulary.__getitem__)
    for token_id, text in enumerate(texts):
        if vocabulary[text] != token_id:
            raise _unreadable(file, f"no token or more than one has the id {min(token_id, vocabulary[text])}")
    return texts


def _learnt_tokens(file: Path, texts: list[str], special: int) -> list[bytes]:
    tokens = []
    for text in texts[special:]:
        token = to_bytes(text)
        if token is None:
            raise _unreadable(file, f"the token `{text}` is not spelt in byte-level characters")
        tokens.append(token)
    return tokens


def _merges_by_id(
    file: Path, pairs: list[tuple[str, ...]], vocabulary: dict[str, int]
) -> list[tuple[int, int, int]]:
    merges = []
    for rank, pair in enumerate(pairs):
        if len(pair) != 2:
            raise _unreadable(file, f"merge {rank} is not a pair but `{' '.join(pair)}`")
        left, right = pair
        for text in (left, right, left + right):
            if text not in vocabulary:
                raise _unreadable(file, f"merge {rank} names the unknown token `{text}`")
        merges.append((vocabulary[left], vocabulary[right], vocabulary[left + right]))
    return merges


def _options_beside(file: Path) -> TrainOptions | None:
    """The options in `tokenizer_config.json`; they may be of another tokenizer."""
    config_file = file.with_name(CONFIG_FILE)
    if not config_file.is_file():
        return None
    stored: Any = _read_json(config_file).get(OPTIONS_KEY)
    try:
        return TrainOptions(**{**stored, "special_tokens": tuple(stored["special_tokens"])})
    except (KeyError, TypeError):
        return None


def _unreadable(file: Path, fault: str) -> InputError:
    return InputError(
        f"`{file}` is not a tokenizer that Krill trained: {fault}",
        hint="train it anew with `krill tokenizer train`, or restore the file",
    )
