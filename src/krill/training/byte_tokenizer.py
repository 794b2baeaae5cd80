"""The built-in byte tokenizer as files, for an exported model that was trained with it.

In: nothing. Out: the contents of a `tokenizer.json` and its `tokenizer_config.json` that give the same ids: a
byte-level vocabulary without merges, each byte its own id, then the end of a document. Nothing is held.
"""

from __future__ import annotations

from krill.storage.atomic import encode_json
from krill.tokenizer.encoder import EOS
from krill.tokenizer.files import CONFIG_FILE, TOKENIZER_FILE, tokenizer_json
from krill.tokenizer.options import TrainOptions
from krill.tokenizer.tokenizer_file import EOS_NAMES
from krill.tokenizer.vocabulary import TrainedBpe, to_text


def byte_tokenizer_json() -> dict[str, bytes]:
    """File names and contents."""
    end = EOS_NAMES[0]
    options = TrainOptions(vocab_size=EOS + 1, pattern="gpt2", special_tokens=(end,))
    tokens = [end.encode(), *(bytes([byte]) for byte in range(EOS))]
    content = tokenizer_json(TrainedBpe(options, tokens, special=1, alphabet=EOS, merges=[]))
    # A trained tokenizer begins with its special tokens; this one's comes last.
    content["added_tokens"][0]["id"] = EOS
    content["model"]["vocab"] = {to_text(bytes([byte])): byte for byte in range(EOS)} | {end: EOS}
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "eos_token": end,
    }
    return {TOKENIZER_FILE: encode_json(content), CONFIG_FILE: encode_json(config)}
