"""Inputs of the golden outputs: text from a generator of our own, so that no library can change it."""

from __future__ import annotations

import csv
import io
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

COMMON = [
    "the",
    "of",
    "and",
    "to",
    "in",
    "is",
    "that",
    "it",
    "was",
    "for",
    "on",
    "are",
    "as",
    "with",
    "his",
    "they",
    "be",
    "at",
    "one",
    "have",
    "this",
    "from",
]
SYLLABLES = [
    "ka",
    "lo",
    "mi",
    "ren",
    "tu",
    "vas",
    "eß",
    "ño",
    "中文",
    "日本",
    "при",
    "вет",
    "한국",
    "ал",
    "δε",
]


class Draws:
    """Numbers that are the same on every machine: a linear congruential generator of 64 bits."""

    def __init__(self, seed: int) -> None:
        self._state = seed

    def below(self, limit: int) -> int:
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self._state >> 33) % limit

    def word(self) -> str:
        if self.below(3):
            return COMMON[self.below(len(COMMON))]
        return "".join(SYLLABLES[self.below(len(SYLLABLES))] for _ in range(1 + self.below(4)))


def sentence(draws: Draws) -> str:
    words = [draws.word() for _ in range(4 + draws.below(14))]
    return " ".join(words).capitalize() + ".!?…"[draws.below(4)]


def document(draws: Draws) -> str:
    paragraphs = []
    for _ in range(1 + draws.below(5)):
        lines = [
            " ".join(sentence(draws) for _ in range(1 + draws.below(4))) for _ in range(1 + draws.below(3))
        ]
        paragraphs.append("\n".join(lines))
    return "\n\n".join(paragraphs)


def documents(count: int, seed: int) -> Iterator[str]:
    """Most are new; some are copies or nearly so, quote an earlier paragraph, or are short, empty or odd."""
    draws = Draws(seed)
    seen: list[str] = []
    for number in range(count):
        kind = draws.below(12)
        if kind == 0 and seen:
            text = seen[draws.below(len(seen))]
        elif kind == 1 and seen:
            text = seen[draws.below(len(seen))] + f" {draws.word()}"
        elif kind == 2 and seen:
            text = seen[draws.below(len(seen))].split("\n\n")[0] + "\n\n" + document(draws)
        elif kind == 3:
            text = ["", "  short  ", f"{number}", "- one\n- two\n- three " * 9, "lorem ipsum { } " * 30][
                number % 5
            ]
        else:
            text = document(draws)
            seen.append(text)
        yield text


def records(count: int, seed: int) -> list[dict[str, Any]]:
    return [
        {"id": number, "text": text, "kind": f"k{number % 3}", "score": number / 8}
        for number, text in enumerate(documents(count, seed))
    ]


def json_lines(rows: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)


def write_inputs(folder: Path) -> None:
    """All formats of the first source, and a second source."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows, more = records(900, 1), records(300, 2)
    (folder / "first.jsonl").write_bytes(json_lines(rows))
    (folder / "second.jsonl").write_bytes(json_lines(more))
    (folder / "broken.jsonl").write_bytes(
        json_lines(more[:50]) + b'{"text": 7}\n{"text"\n' + json_lines(more[50:])
    )
    (folder / "first.json").write_text(json.dumps(rows))
    # The header of `gzip.compress` depends on the version of Python.
    compressor = zlib.compressobj(9, wbits=31)
    (folder / "first.jsonl.gz").write_bytes(compressor.compress(json_lines(rows)) + compressor.flush())
    (folder / "first.txt").write_text("<|endoftext|>".join(row["text"] for row in rows))
    table = io.StringIO()
    writer = csv.DictWriter(table, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    (folder / "first.csv").write_text(table.getvalue())
    columns = pa.Table.from_pylist(rows)
    pq.write_table(columns, folder / "first.parquet", row_group_size=200)
    with pa.ipc.new_file(folder / "first.arrow", columns.schema) as file:
        file.write_table(columns, max_chunksize=150)
    (folder / "squad.json").write_text(json.dumps(questions(40, 3), ensure_ascii=False))
    write_word_pieces(folder / "pieces" / "tokenizer.json")


def questions(contexts: int, seed: int) -> dict[str, Any]:
    """SQuAD's form: answers at the begin, in the middle and at the end of a context, and none."""
    draws = Draws(seed)
    articles = []
    for number in range(contexts):
        context = " ".join(sentence(draws) for _ in range(6 + draws.below(30)))
        asked = []
        for at in range(1 + draws.below(4)):
            words = context.split(" ")
            first = (0, len(words) // 2, len(words) - 2, 0)[at]
            answer = " ".join(words[first : first + 1 + draws.below(2)])
            start = len(" ".join(words[:first])) + (1 if first else 0)
            given = [] if at == 3 else [{"text": answer, "answer_start": start}]
            question = sentence(draws).rstrip(".!…") + "?"
            asked.append(
                {"id": f"{number}-{at}", "question": question, "answers": given, "is_impossible": not given}
            )
        articles.append({"title": f"t{number}", "paragraphs": [{"context": context, "qas": asked}]})
    return {"version": "v2.0", "data": articles}


def write_word_pieces(path: Path) -> None:
    """A WordPiece tokenizer in BERT's layout."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    letters = sorted({letter for text in [*COMMON, *SYLLABLES] for letter in text})
    pieces = [*special, *letters, *(f"##{letter}" for letter in letters), *"?.!…-{}", *COMMON]
    tokenizer = Tokenizer(
        models.WordPiece({piece: at for at, piece in enumerate(dict.fromkeys(pieces))}, unk_token="[UNK]")
    )
    tokenizer.normalizer = normalizers.BertNormalizer(handle_chinese_chars=False, strip_accents=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(special)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    path.parent.mkdir()
    tokenizer.save(str(path))
    declared = {"tokenizer_class": "BertTokenizerFast", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    declared |= {"pad_token": "[PAD]", "unk_token": "[UNK]", "eos_token": "[SEP]"}
    (path.parent / "tokenizer_config.json").write_text(json.dumps(declared))
