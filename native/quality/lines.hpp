// Lines and paragraphs of a document, by the rules of each filter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "growing_buffer.hpp"
#include "quality/index_table.hpp"
#include "quality/quick_hash.hpp"
#include "quality/traits.hpp"
#include "quality/words.hpp"
#include "text/byte_scan.hpp"
#include "text/utf8.hpp"

namespace krill::quality {

// Where the next byte is that may begin a line break: those are control characters, U+0085, U+2028 and
// U+2029.
inline size_t find_break_byte(const uint8_t* text, size_t size, size_t at) {
  for (; at + 16 <= size; at += 16) {
    const text::Bytes16 block = text::Bytes16::load(text + at);
    const text::Matches found = (block.at_most(0x1f) | block.equal(0xc2) | block.equal(0xe2)).matches();
    if (found.any()) return at + found.first();
  }
  while (at < size && text[at] > 0x1f && text[at] != 0xc2 && text[at] != 0xe2) ++at;
  return at;
}

// Calls `emit(Span)` for each line as str.splitlines gives it.
template <class Emit>
void split_lines(const uint8_t* text, size_t size, Emit emit) {
  size_t begin = 0;
  for (size_t at = 0; (at = find_break_byte(text, size, at)) < size;) {
    const Character here = character_at(text + at, size - at);
    if ((traits_of(here.point) & kLineBreak) == 0) {
      at += here.length;
      continue;
    }
    emit(Span{static_cast<uint32_t>(begin), static_cast<uint32_t>(at - begin)});
    at += here.length;
    if (here.point == '\r' && at < size && text[at] == '\n') ++at;
    begin = at;
  }
  if (begin < size) emit(Span{static_cast<uint32_t>(begin), static_cast<uint32_t>(size - begin)});
}

// Calls `emit(Span)` for each piece between runs of at least `newlines` newlines, empty ones at the ends
// included, as re.split gives them.
template <class Emit>
void split_at_newlines(const uint8_t* text, size_t size, size_t newlines, Emit emit) {
  size_t begin = 0;
  for (size_t at = 0; at < size;) {
    const void* found = std::memchr(text + at, '\n', size - at);
    if (found == nullptr) break;
    const size_t run = static_cast<size_t>(static_cast<const uint8_t*>(found) - text);
    at = run + 1;
    while (at < size && text[at] == '\n') ++at;
    if (at - run < newlines) continue;
    emit(Span{static_cast<uint32_t>(begin), static_cast<uint32_t>(run - begin)});
    begin = at;
  }
  emit(Span{static_cast<uint32_t>(begin), static_cast<uint32_t>(size - begin)});
}

// Calls `emit(Span)` for each piece between single newlines, as str.split("\n") gives them.
template <class Emit>
void split_at_each_newline(const uint8_t* text, size_t size, Emit emit) {
  for (size_t begin = 0;;) {
    const void* found = begin < size ? std::memchr(text + begin, '\n', size - begin) : nullptr;
    const size_t end =
        found == nullptr ? size : static_cast<size_t>(static_cast<const uint8_t*>(found) - text);
    emit(Span{static_cast<uint32_t>(begin), static_cast<uint32_t>(end - begin)});
    if (found == nullptr) return;
    begin = end + 1;
  }
}

inline bool is_blank(const uint8_t* text, size_t size) {
  return text::leading_whitespace(text, size).bytes == size;
}

inline Span stripped(const uint8_t* text, Span line) {
  const size_t front = text::leading_whitespace(text + line.begin, line.size).bytes;
  const uint8_t* rest = text + line.begin + front;
  const size_t back = text::trailing_whitespace(rest, line.size - front).bytes;
  return {static_cast<uint32_t>(line.begin + front), static_cast<uint32_t>(line.size - front - back)};
}

struct Repeats {
  size_t pieces = 0;
  size_t characters = 0;
};

// How many pieces are repeats of earlier ones, and their characters. `repeated(number)` is called for each.
template <class Repeated>
Repeats find_repeats(const uint8_t* text, const GrowingBuffer<Span>& pieces, IndexTable& table,
                     Repeated repeated) {
  table.reset(pieces.size(), pieces.size());
  Repeats found;
  for (uint32_t i = 0; i < pieces.size(); ++i) {
    const Span piece = pieces[i];
    const uint8_t* bytes = text + piece.begin;
    const uint32_t first = table.first_of(quick_hash(bytes, piece.size), i, [&](uint32_t other) {
      return pieces[other].size == piece.size && equal_bytes(text + pieces[other].begin, bytes, piece.size);
    });
    if (first == i) continue;
    ++found.pieces;
    found.characters += count_characters(bytes, piece.size);
    repeated(i);
  }
  return found;
}

inline Repeats find_repeats(const uint8_t* text, const GrowingBuffer<Span>& pieces, IndexTable& table) {
  return find_repeats(text, pieces, table, [](uint32_t) {});
}

}  // namespace krill::quality
