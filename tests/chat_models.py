"""Tokenizers with chat templates, for tests: folders as models come in, and the same for transformers."""

from __future__ import annotations

import json
import re
from datetime import datetime
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast
from transformers.utils import chat_template_utils

from peers import peer

peer("trl")

TRL_TEMPLATES = sorted((Path(str(find_spec("trl").origin)).parent / "chat_templates").glob("*.jinja"))
_MARKER = re.compile(r"{%-?\s*generation")
_COMMENT = re.compile("{#.*?#}", re.DOTALL)
WITH_MARKERS = [path for path in TRL_TEMPLATES if _MARKER.search(_COMMENT.sub("", path.read_text()))]
WITHOUT_MARKERS = [path for path in TRL_TEMPLATES if path not in WITH_MARKERS]
# Not special, as in the tokenizers of Qwen: assistants write them.
PLAIN_CONTROL = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]
DATE = "2026-01-31"
BOS, EOS = "<|begin|>", "<|stop|>"
_WRITTEN = re.compile(
    "<\\|[^\\s<>|]+\\|?>|<[^\\s<>|/]+\\|>|<\uff5c[^<>\uff5c]+\uff5c>|</?s>|<\\w+_of_\\w+>|\\[gMASK\\]|<sop>"
)
TEXT = 'What is the answer? The answer is 42, of course. Größe, naïve, 你好世界 🦐 {"city": "Paris"}\n' * 4


@cache
def tokenizer_json() -> str:
    """A byte-level tokenizer that has a token for each control string of trl's templates."""
    control = {text for path in TRL_TEMPLATES for text in _WRITTEN.findall(path.read_text())}
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator([TEXT], trainer)
    special = sorted({BOS, EOS, "<|im_start|>", "<|im_end|>", *control} - set(PLAIN_CONTROL))
    tokenizer.add_special_tokens([AddedToken(text, normalized=False) for text in special])
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in PLAIN_CONTROL])
    return tokenizer.to_str()


def make_model(folder: Path, template: str | None, tokenizer: str | None = None, **settings: Any) -> Path:
    """A folder with a tokenizer and its chat template."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(tokenizer or tokenizer_json())
    config = {"bos_token": BOS, "eos_token": EOS, "tokenizer_class": "PreTrainedTokenizerFast", **settings}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    if template is not None:
        (folder / "chat_template.jinja").write_text(template)
    return folder


def fix_library_date(monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers writes today's date, which has to be `DATE`."""

    class Fixed(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Fixed:
            return cls.fromisoformat(DATE)

    monkeypatch.setattr(chat_template_utils, "datetime", Fixed)


def library_tokenizer(template: str | None, tokenizer: str | None = None) -> PreTrainedTokenizerFast:
    """The same for transformers."""
    made = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(tokenizer or tokenizer_json()), bos_token=BOS, eos_token=EOS
    )
    made.chat_template = template
    return made
