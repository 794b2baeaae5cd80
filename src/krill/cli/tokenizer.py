"""`krill tokenizer`: its verbs."""

from __future__ import annotations

from cyclopts import App

from krill.cli.tokenizer_compare import compare
from krill.cli.tokenizer_decode import decode
from krill.cli.tokenizer_encode import encode
from krill.cli.tokenizer_train import train

tokenizer = App(name="tokenizer", help="Train tokenizers in bounded memory, and use them.")
tokenizer.command(train)
tokenizer.command(encode)
tokenizer.command(decode)
tokenizer.command(compare)
