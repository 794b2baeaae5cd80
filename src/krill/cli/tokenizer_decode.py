"""`krill tokenizer decode`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from krill.cli.options import Switch, TokenizerBudget
from krill.cli.streams import standard_output
from krill.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray


# A word of more characters is shown by its first part that is no id.
_MOST_SHOWN: Final = 200


def decode(
    *ids: str,
    tokenizer: Path,
    input: Path | None = None,
    skip_special_tokens: Switch = False,
    budget: TokenizerBudget = TokenizerBudget(),  # noqa: B008  a frozen value, never changed
) -> None:
    """Token ids in, text out.

    Ids come from the arguments, from a file that `krill tokenizer encode` wrote, or else from standard input,
    where each line is a text of its own. They are separated by spaces or commas.

    Parameters
    ----------
    ids
        Ids to decode into one text.
    tokenizer
        A tokenizer.json, or the folder that holds one.
    input
        A file of ids: .npy, or else little-endian numbers as `krill tokenizer encode` writes them.
    skip_special_tokens
        Leave special tokens out of the text.
    """
    output = standard_output()
    with budget.open(tokenizer) as loaded:

        def text(some: Any) -> str:
            return loaded.decode(some, skip_special_tokens=skip_special_tokens)

        if input is not None:
            from krill.pipeline.token_file import decoded, read_ids

            for piece in decoded(read_ids(input, loaded.vocab_size), text, loaded.eos_id):
                output.write_data(piece)
            return
        for line in [ids] if ids else (line.decode("utf-8", "replace").split() for line in sys.stdin.buffer):
            output.write_data(f"{text(_numbers(line))}\n")


def _numbers(words: Iterable[str]) -> NDArray[Any]:
    import numpy as np

    numbers: list[int] = []
    for word in words:
        for number in word.replace(",", " ").split():
            if not number.isdecimal() or len(number) > 10 or int(number) >= 2**32:
                shown = word if len(word) <= _MOST_SHOWN else number
                raise InputError(f"`{shown}` is not a token id", hint="give whole numbers from 0 on")
            numbers.append(int(number))
    return np.array(numbers, np.uint32)
