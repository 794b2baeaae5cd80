"""The sections of published tokenizers, each as its `tokenizer.json` has them. Nothing is held.

Sections are facts about published files; vocabularies are small ones of our own (tokenizer_building.py).
"""

from __future__ import annotations

from tokenizer_building import Family
from tokenizer_families_bytes import BYTE_LEVEL
from tokenizer_families_seldom import SELDOM
from tokenizer_families_words import OVER_CHARACTERS

FAMILIES: dict[str, Family] = {**BYTE_LEVEL, **OVER_CHARACTERS, **SELDOM}
