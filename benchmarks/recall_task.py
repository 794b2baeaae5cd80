"""Questions that no single segment answers: a country in the first segment, capitals in the last.

In: sizes and a seed. Out: question JSON lines and a tokenizer, for `krill qa prepare`. The country stands
among words that mean nothing, as do all capitals in the last segment, and the answer is the one that belongs
to the country. Without memory of the first segment it is a guess of one in `len(CAPITALS)`.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

CAPITALS = {
    "France": "Paris",
    "Italy": "Rome",
    "Spain": "Madrid",
    "Norway": "Oslo",
    "Poland": "Warsaw",
    "Greece": "Athens",
    "Austria": "Vienna",
    "Ireland": "Dublin",
}
QUESTION = "capital"
FILLER = ["of", "the", "and", "to", "in", "is", "that", "it", "for", "was"]
# Tokens of a feature that are no context: question, classification token, two separators.
AROUND = 4


def write_tokenizer(path: Path, *, memory_tokens: int) -> Path:
    """One token for each word, laid out as BERT does, with memory tokens in place."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    from krill.qa import configure_memory_tokens

    words = ["[UNK]", "[PAD]", "[CLS]", "[SEP]", QUESTION, *FILLER, *CAPITALS, *CAPITALS.values()]
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(["[PAD]", "[CLS]", "[SEP]"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", words.index("[CLS]")), ("[SEP]", words.index("[SEP]"))],
    )
    configure_memory_tokens(tokenizer, memory_num_tokens=memory_tokens)
    tokenizer.save(str(path))
    return path


def write_questions(path: Path, documents: int, *, segments: tuple[int, int], words: int, seed: int) -> Path:
    """Documents of a random number of segments, from the least to the most, of `words` words each."""
    draw = random.Random(seed)
    with path.open("w") as file:
        for number in range(documents):
            count = draw.randint(*segments)
            file.write(json.dumps(_question(str(number), count, words, draw)) + "\n")
    return path


def _question(name: str, segments: int, words: int, draw: random.Random) -> dict[str, object]:
    text = [[draw.choice(FILLER) for _ in range(words)] for _ in range(segments)]
    country = draw.choice(list(CAPITALS))
    text[0][draw.randrange(words)] = country
    places = draw.sample(range(words), len(CAPITALS))
    for place, city in zip(places, CAPITALS.values(), strict=True):
        text[-1][place] = city
    answer = CAPITALS[country]
    context = " ".join(word for segment in text for word in segment)
    return {
        "id": name,
        "question": QUESTION,
        "context": context,
        "answers": [{"text": answer, "answer_start": context.index(answer)}],
    }
