// One word at a time, character by character: the rules of the patterns, in the order of the regexes'
// alternatives. `start` is where a word begins and lies inside the text; the functions return where something
// ends.
#pragma once

#include <cstddef>
#include <cstdint>

#include "text/char_class.hpp"
#include "text/scanner.hpp"

namespace krill::text {

struct ScanText {
  const uint8_t* bytes;
  size_t size;

  Character at(size_t place) const { return character_at(bytes + place, size - place); }
};

using Letters = Pattern::Letters;
using Contractions = Pattern::Contractions;

// What counts as a letter, and what as neither letter, number nor space.
template <Letters kLetters>
bool in_word(CharClass kind) {
  return is_letter(kind) || (kLetters == Letters::with_marks && kind == CharClass::mark);
}
template <Letters kLetters>
bool outside_words(CharClass kind) {
  return is_other(kind) && !in_word<kLetters>(kind);
}

// The length of 's 't 'm 'd 're 've 'll at an apostrophe, or 0. Where case does not count, U+017F is an s.
inline size_t contraction_length(Contractions kind, const uint8_t* at, size_t size) {
  if (size < 2) return 0;
  const bool any_case = kind == Contractions::any_case;
  const auto fold = [=](uint8_t byte) { return any_case && byte < 0x80 ? byte | 0x20 : byte; };
  const int first = fold(at[1]);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if (size < 3) return 0;
  if (first == 'r' || first == 'v') return fold(at[2]) == 'e' ? 3 : 0;
  if (first == 'l') return fold(at[2]) == 'l' ? 3 : 0;
  return any_case && at[1] == 0xc5 && at[2] == 0xbf ? 3 : 0;
}

// The same at any place.
inline size_t contraction_at(const Pattern& pattern, const ScanText& text, size_t place) {
  if (pattern.contractions == Contractions::none || place == text.size || text.bytes[place] != '\'') return 0;
  return contraction_length(pattern.contractions, text.bytes + place, text.size - place);
}

// The end of the longest run of characters that are `wanted`, up to `most` of them.
template <class Wanted>
size_t run_end(const ScanText& text, size_t start, Wanted wanted, size_t most = SIZE_MAX) {
  size_t place = start;
  for (; place < text.size && most > 0; --most) {
    const Character character = text.at(place);
    if (!wanted(character.kind)) break;
    place += character.length;
  }
  return place;
}

// Whitespace that no other word takes. The last character of a run is left to the next word, unless the text
// ends there or it is the only one: `\s+(?!\S)|\s+`. Where newlines matter, everything up to the last one of
// the run comes first: `\s*[\r\n]+`. And before that, in cl100k, a run that ends the text is one word:
// `\s++$`.
inline size_t space_end(const Pattern& pattern, const ScanText& text, size_t start) {
  size_t place = start;
  size_t last = start;
  size_t after_newline = start;
  while (place < text.size) {
    const Character character = text.at(place);
    if (!is_space(character.kind)) break;
    last = place;
    place += character.length;
    if (character.kind == CharClass::newline) after_newline = place;
  }
  if (pattern.ends_whole && place == text.size) return place;
  if (pattern.letters != Letters::after_blank && after_newline != start) return after_newline;
  return place == text.size || last == start ? place : last;
}

inline size_t gpt2_word_end(const Pattern& pattern, const ScanText& text, size_t start) {
  if (const size_t length = contraction_at(pattern, text, start)) return start + length;
  const size_t body = start + (text.bytes[start] == ' ' && start + 1 < text.size ? 1 : 0);
  const CharClass kind = text.at(body).kind;
  if (is_letter(kind)) return run_end(text, body, is_letter);
  if (is_number(kind)) return run_end(text, body, is_number);
  if (is_other(kind)) return run_end(text, body, is_other);
  return space_end(pattern, text, start);
}

// ` ?[^\s\p{L}\p{N}]+[\r\n]*`; o200k takes slashes after the newlines too.
template <Letters kLetters>
size_t other_end(const Pattern& pattern, const ScanText& text, size_t body) {
  size_t place = run_end(text, body, outside_words<kLetters>);
  const auto trails = [&](uint8_t byte) {
    return byte == '\n' || byte == '\r' || (pattern.slashes && byte == '/');
  };
  while (place < text.size && trails(text.bytes[place])) ++place;
  return place;
}

// Numbers, other characters, whitespace: what the newer patterns do when no letters come.
template <Letters kLetters>
size_t plain_end(const Pattern& pattern, const ScanText& text, size_t start, CharClass kind) {
  if (is_number(kind)) {
    const size_t most = pattern.numbers == Pattern::kAnyNumber ? SIZE_MAX : pattern.numbers;
    return run_end(text, start, is_number, most);
  }
  if (is_other(kind)) return other_end<kLetters>(pattern, text, start);
  if (text.bytes[start] == ' ' && start + 1 < text.size && outside_words<kLetters>(text.at(start + 1).kind))
    return other_end<kLetters>(pattern, text, start + 1);
  return space_end(pattern, text, start);
}

// May stand before letters in their word: `[^\r\n\p{L}\p{N}]?`.
inline bool leads_letters(CharClass kind) { return is_other(kind) || kind == CharClass::space; }

template <Letters kLetters>
size_t caseless_word_end(const Pattern& pattern, const ScanText& text, size_t start) {
  if (const size_t length = contraction_at(pattern, text, start)) return start + length;
  const Character first = text.at(start);
  if (in_word<kLetters>(first.kind)) return run_end(text, start + first.length, in_word<kLetters>);
  if (leads_letters(first.kind)) {
    const size_t body = start + first.length;
    const size_t end = run_end(text, body, in_word<kLetters>);
    if (end != body) return end;
  }
  return plain_end<kLetters>(pattern, text, start, first.kind);
}

inline bool is_uncased(CharClass kind) { return kind == CharClass::letter || kind == CharClass::mark; }
inline bool not_lower(CharClass kind) { return is_uncased(kind) || kind == CharClass::upper; }
inline bool not_upper(CharClass kind) { return is_uncased(kind) || kind == CharClass::lower; }

// `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+`, else `[\p{Lu}...]+`. The first class takes
// all it can. If no lower case letter follows, it gives back down to its last character that belongs to both
// classes, and that ends the word.
inline size_t cased_letters_end(const ScanText& text, size_t start) {
  size_t place = start;
  size_t after_both = start;
  while (place < text.size) {
    const Character character = text.at(place);
    if (!not_lower(character.kind)) break;
    place += character.length;
    if (is_uncased(character.kind)) after_both = place;
  }
  const size_t end = run_end(text, place, not_upper);
  if (end != place) return end;
  return after_both != start ? after_both : place;
}

inline size_t cased_word_end(const Pattern& pattern, const ScanText& text, size_t start) {
  const Character first = text.at(start);
  // A mark that leads letters belongs to them as well, and the word ends at the same place either way.
  const bool begins = is_letter(first.kind) || first.kind == CharClass::mark;
  const size_t body = begins ? start : start + first.length;
  if (begins || leads_letters(first.kind)) {
    const size_t end = cased_letters_end(text, body);
    if (end != body) return end + contraction_at(pattern, text, end);
  }
  return plain_end<Letters::by_case>(pattern, text, start, first.kind);
}

template <Letters kLetters>
size_t word_end(const Pattern& pattern, const ScanText& text, size_t start) {
  if constexpr (kLetters == Letters::after_blank)
    return gpt2_word_end(pattern, text, start);
  else if constexpr (kLetters == Letters::by_case)
    return cased_word_end(pattern, text, start);
  else
    return caseless_word_end<kLetters>(pattern, text, start);
}

}  // namespace krill::text
