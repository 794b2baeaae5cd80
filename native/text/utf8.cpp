#include "text/utf8.hpp"

#include <cstring>

namespace krill::text {
namespace {

bool is_continuation(uint8_t byte) { return (byte & 0xc0) == 0x80; }

// Length of the well-formed sequence at the front of text, or 0 if there is none.
size_t sequence_length(const uint8_t* text, size_t size) {
  const uint8_t lead = text[0];
  if (lead < 0x80) return 1;
  if (lead < 0xc2) return 0;
  if (lead < 0xe0) return size >= 2 && is_continuation(text[1]) ? 2 : 0;
  if (lead < 0xf0) {
    if (size < 3 || !is_continuation(text[1]) || !is_continuation(text[2])) return 0;
    if (lead == 0xe0 && text[1] < 0xa0) return 0;  // overlong
    if (lead == 0xed && text[1] > 0x9f) return 0;  // surrogates
    return 3;
  }
  if (lead > 0xf4 || size < 4) return 0;
  if (!is_continuation(text[1]) || !is_continuation(text[2]) || !is_continuation(text[3])) return 0;
  if (lead == 0xf0 && text[1] < 0x90) return 0;  // overlong
  if (lead == 0xf4 && text[1] > 0x8f) return 0;  // above U+10FFFF
  return 4;
}

// What is looked at in one step: loops of this length are unrolled into vector instructions by the compiler.
constexpr size_t kBlock = 64;
// A byte's place in its sequence shows in the three before it.
constexpr size_t kLookBack = 3;

bool is_ascii_block(const uint8_t* text) {
  uint8_t any = 0;
  for (size_t i = 0; i < kBlock; ++i) any |= text[i];
  return any < 0x80;
}

struct BlockCheck {
  bool well_formed;
  uint8_t chars;
};

// Checks a block whose lookback is well-formed but may end inside a sequence; so may the block. Flags are
// bytes and nothing branches, so that sixteen or more positions are judged by each instruction.
BlockCheck check_block(const uint8_t* text) {
  uint8_t wrong = 0;
  uint8_t starts = 0;
  for (size_t i = 0; i < kBlock; ++i) {
    const uint8_t byte = text[i];
    const uint8_t before = text[i - 1];
    const uint8_t continues = (byte & 0xc0) == 0x80;
    const uint8_t expected = (before >= 0xc0) | (text[i - 2] >= 0xe0) | (text[i - 3] >= 0xf0);
    const uint8_t never = ((byte & 0xfe) == 0xc0) | (byte > 0xf4);
    const uint8_t overlong = ((before == 0xe0) & (byte < 0xa0)) | ((before == 0xf0) & (byte < 0x90));
    const uint8_t beyond = ((before == 0xed) & (byte > 0x9f)) | ((before == 0xf4) & (byte > 0x8f));
    wrong |= (continues ^ expected) | never | overlong | beyond;
    starts += continues ^ 1;
  }
  return {wrong == 0, starts};
}

// Goes on sequence by sequence until `goal` is reached or the text is not well-formed.
void step(const uint8_t* text, size_t size, size_t goal, Utf8Extent& done) {
  while (done.bytes < goal) {
    const size_t length = sequence_length(text + done.bytes, size - done.bytes);
    if (length == 0) return;
    done.bytes += length;
    ++done.chars;
  }
}

// Goes on block by block as long as blocks are well-formed. What is done then may end inside a sequence.
void step_blocks(const uint8_t* text, size_t size, Utf8Extent& done) {
  while (size - done.bytes >= kBlock) {
    const uint8_t* block = text + done.bytes;
    if (block[-1] < 0x80 && is_ascii_block(block)) {
      done.chars += kBlock;
    } else {
      const BlockCheck check = check_block(block);
      if (!check.well_formed) return;
      done.chars += check.chars;
    }
    done.bytes += kBlock;
  }
}

// Takes back the sequence at the end if it is not whole.
void close(const uint8_t* text, Utf8Extent& done) {
  const uint8_t* end = text + done.bytes;
  const size_t open = end[-1] >= 0xc0 ? 1 : end[-2] >= 0xe0 ? 2 : end[-3] >= 0xf0 ? 3 : 0;
  done.bytes -= open;
  done.chars -= open != 0;
}

// The length of the whitespace character at the front, or 0. The set is str.isspace's.
size_t whitespace_length(const uint8_t* text, size_t size) {
  const uint8_t lead = text[0];
  if (lead < 0x80) return lead == ' ' || (lead >= 0x09 && lead <= 0x0d) || (lead >= 0x1c && lead <= 0x1f);
  if (lead == 0xc2) return size >= 2 && (text[1] == 0x85 || text[1] == 0xa0) ? 2 : 0;  // U+0085, U+00A0
  if (size < 3) return 0;
  const uint8_t second = text[1];
  const uint8_t third = text[2];
  switch (lead) {
    case 0xe1:  // U+1680
      return second == 0x9a && third == 0x80 ? 3 : 0;
    case 0xe2:  // U+2000-200A, U+2028, U+2029, U+202F; U+205F
      if (second == 0x80)
        return (third >= 0x80 && third <= 0x8a) || third == 0xa8 || third == 0xa9 || third == 0xaf ? 3 : 0;
      return second == 0x81 && third == 0x9f ? 3 : 0;
    case 0xe3:  // U+3000
      return second == 0x80 && third == 0x80 ? 3 : 0;
    default: return 0;
  }
}

}  // namespace

Utf8Extent utf8_prefix(const uint8_t* text, size_t size) {
  Utf8Extent done{0, 0};
  if (size >= kLookBack + kBlock) {
    step(text, size, kLookBack, done);
    if (done.bytes < kLookBack) return done;
    step_blocks(text, size, done);
    close(text, done);
  }
  step(text, size, size, done);
  return done;
}

Utf8Extent utf8_repair(const uint8_t* text, size_t size, uint8_t* out) {
  Utf8Extent kept{0, 0};
  size_t at = 0;
  while (at < size) {
    const Utf8Extent valid = utf8_prefix(text + at, size - at);
    std::memcpy(out + kept.bytes, text + at, valid.bytes);
    kept.bytes += valid.bytes;
    kept.chars += valid.chars;
    // CPython skips the whole broken sequence; all of it after its first byte are continuation bytes,
    // which are dropped one by one here.
    at += valid.bytes + 1;
  }
  return kept;
}

Utf8Extent leading_whitespace(const uint8_t* text, size_t size) {
  Utf8Extent found{0, 0};
  while (found.bytes < size) {
    const size_t length = whitespace_length(text + found.bytes, size - found.bytes);
    if (length == 0) break;
    found.bytes += length;
    ++found.chars;
  }
  return found;
}

Utf8Extent trailing_whitespace(const uint8_t* text, size_t size) {
  Utf8Extent found{0, 0};
  size_t end = size;
  while (end > 0) {
    size_t length = 1;
    while (length < 3 && length < end && is_continuation(text[end - length])) ++length;
    if (whitespace_length(text + end - length, length) != length) break;
    end -= length;
    ++found.chars;
  }
  found.bytes = size - end;
  return found;
}

}  // namespace krill::text
