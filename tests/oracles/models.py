"""The models of tokenizers by their definitions: slow, obvious, and held to Hugging Face's library by tests.

A token is its id, and where in the word it begins and ends, in bytes, as the library's `Model.tokenize` says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Token = tuple[int, int, int]


class NoUnknownToken(Exception):
    """A word needs the unknown token, and there is none."""


def reference_unigram(
    word: str, vocab: Sequence[tuple[str, float]], unk_id: int | None, byte_fallback: bool
) -> list[Token]:
    """The tokens of a word, which is not empty, by Viterbi's algorithm over characters."""
    ids = {piece: number for number, (piece, _) in enumerate(vocab)}
    lowest = min((score for _, score in vocab), default=float("inf"))
    best: dict[int, tuple[float, int, int | None]] = {0: (0.0, 0, None)}

    def offer(begin: int, end: int, score: float, number: int | None) -> None:
        total = score + best[begin][0]
        if end not in best or total > best[end][0]:
            if number is None:
                raise NoUnknownToken
            best[end] = (total, begin, number)

    for begin in range(len(word)):
        ends = [end for end in range(begin + 1, len(word) + 1) if word[begin:end] in ids]
        for end in ends:
            number = ids[word[begin:end]]
            offer(begin, end, vocab[number][1], number)
        if begin + 1 not in ends:
            offer(begin, begin + 1, lowest - 10, unk_id)
    pieces: list[tuple[str, bool]] = []
    end = len(word)
    while end:
        _, begin, chosen = best[end]
        unknown = chosen == unk_id
        text = word[begin:end]
        if unknown and pieces and pieces[-1][1]:
            text += pieces.pop()[0]
        pieces.append((text, unknown))
        end = begin
    return _with_offsets([text for text, _ in reversed(pieces)], ids, unk_id, byte_fallback)


def _with_offsets(
    pieces: Sequence[str], ids: Mapping[str, int], unk_id: int | None, byte_fallback: bool
) -> list[Token]:
    tokens: list[Token] = []
    begin = 0
    for piece in pieces:
        text = piece.encode()
        end = begin + len(text)
        of_bytes = [ids.get(f"<0x{byte:02X}>") for byte in text]
        if piece in ids:
            tokens.append((ids[piece], begin, end))
        elif byte_fallback and None not in of_bytes:
            tokens += [(number, begin, end) for number in of_bytes if number is not None]
        else:
            assert unk_id is not None
            tokens.append((unk_id, begin, end))
        begin = end
    return tokens


def reference_word_piece(
    word: str, vocab: Mapping[str, int], unk_token: str, prefix: str, most_characters: int
) -> list[Token]:
    """The tokens of a word: the longest piece first."""
    tokens: list[Token] = []
    begin = 0
    while begin < len(word) and len(word) <= most_characters:
        start = prefix if begin else ""
        ends = (end for end in range(len(word), begin, -1) if start + word[begin:end] in vocab)
        end = next(ends, None)
        if end is None:
            break
        before, piece = word[:begin].encode(), word[begin:end].encode()
        tokens.append((vocab[start + word[begin:end]], len(before), len(before + piece)))
        begin = end
    if begin == len(word):
        return tokens
    return reference_word_level(None, word, vocab, unk_token)


def reference_word_level(
    known: str | None, word: str, vocab: Mapping[str, int], unk_token: str
) -> list[Token]:
    """The token of a word; `known` is the word, or None if it counts as unknown."""
    number = vocab.get(unk_token) if known is None or known not in vocab else vocab[known]
    if number is None:
        raise NoUnknownToken
    return [(number, 0, len(word.encode()))]
