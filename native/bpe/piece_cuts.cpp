#include "bpe/piece_cuts.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "bpe/mark_runs.hpp"
#include "text/scanner_block.hpp"

namespace krill::bpe {

namespace {

constexpr uint8_t kMarkBytes[] = {0xe2, 0x96, 0x81};

bool is_continuation(uint8_t byte) { return (byte & 0xc0) == 0x80; }

// Where U+2581 begins in a block.
uint64_t marks_in(const text::ScanBlock& block) {
  return block.equal('\xe2') & block.equal('\x96') >> 1 & block.equal('\x81') >> 2;
}

}  // namespace

PieceCuts::PieceCuts(const Vocabulary& vocabulary, const Symbols& symbols, std::span<const uint32_t> merges)
    : byte_level_(symbols.options().byte_level), spaces_are_marks_(symbols.reads_spaces_as_marks()) {
  note_unknown(symbols, merges);
  collect(vocabulary, merges);
  for (size_t byte = 0; byte < 0x80; ++byte) index_[byte] = static_cast<uint8_t>(byte);
  index_[kMarkBytes[0]] = kFirst;
  index_[kMarkBytes[1]] = kMiddle;
  index_[kMarkBytes[2]] = kLast;
  rows_[kFirst][kMiddle / 64] |= uint64_t{1} << kMiddle % 64;
  rows_[kMiddle][kLast / 64] |= uint64_t{1} << kLast % 64;
  if (!spaces_are_marks_) return;
  read_spaces_as_marks();
  if (unknown_ != Unknown::everywhere) separate_runs_ = separate_mark_runs(vocabulary, merges);
}

// A space has the row and the column of U+2581.
void PieceCuts::read_spaces_as_marks() {
  for (auto& row : rows_) {
    row[0] &= ~(uint64_t{1} << ' ');
    row[0] |= (row[kFirst / 64] >> kFirst % 64 & 1) << ' ';
  }
  rows_[' '] = rows_[kLast];
}

void PieceCuts::join_small(size_t left, size_t right) {
  const size_t row = left < 0x80 ? left : kLast, column = right < 0x80 ? right : kFirst;
  rows_[row][column / 64] |= uint64_t{1} << column % 64;
}

// The last character of a left part; a part of it if the token is nothing else.
PieceCuts::Edge PieceCuts::left_edge(std::span<const uint8_t> left) {
  size_t begin = left.size() - 1;
  while (begin > 0 && left.size() - begin < 4 && is_continuation(left[begin])) --begin;
  const TextCharacter last = next_character(left.data() + begin, left.size() - begin);
  if (last.point < kNoCharacter && last.size == left.size() - begin) return {last.point, true};
  // Only bytes that continue a character may be the end of one that begins before the token.
  const bool is_tail = is_continuation(left.back()) && is_continuation(left[begin]) && begin == 0;
  return {kTail + left.back(), is_tail};
}

PieceCuts::Edge PieceCuts::right_edge(std::span<const uint8_t> right) {
  const TextCharacter first = next_character(right.data(), right.size());
  if (first.point < kNoCharacter) return {first.point, true};
  return {kLead + right[0], !is_continuation(right[0])};
}

void PieceCuts::collect(const Vocabulary& vocabulary, std::span<const uint32_t> merges) {
  std::vector<uint64_t> pairs;
  for (size_t at = 0; at < merges.size(); at += 3) {
    const Edge left = left_edge(vocabulary.bytes(merges[at]));
    const Edge right = right_edge(vocabulary.bytes(merges[at + 1]));
    if (!left.valid || !right.valid) continue;
    has_parts_ = has_parts_ || left.key >= kNoCharacter || right.key >= kNoCharacter;
    const size_t i = small_index(left.key), j = small_index(right.key);
    if (i < kSmall && j < kSmall)
      join_small(i, j);
    else
      pairs.push_back(uint64_t{left.key} << 32 | right.key);
  }
  std::ranges::sort(pairs);
  pairs.erase(std::ranges::unique(pairs).begin(), pairs.end());
  // Sixteen bits a pair: one boundary in sixteen is no cut by chance.
  constexpr size_t kLeast = 64, kMost = size_t{1} << 22;
  const size_t bits = std::clamp(std::bit_ceil(16 * pairs.size()), kLeast, kMost);
  shift_ = 64 - static_cast<unsigned>(std::countr_zero(bits));
  joined_.assign(bits / 64, 0);
  for (const uint64_t pair : pairs) {
    const size_t place = bit(static_cast<uint32_t>(pair >> 32), static_cast<uint32_t>(pair));
    joined_[place / 64] |= uint64_t{1} << place % 64;
  }
  // Partial characters beside U+2581 are looked up as for any other character.
  if (!has_parts_ && unknown_ == Unknown::free) return;
  for (size_t i = 0; i < kSmall; ++i)
    for (size_t j = 0; j < kSmall; ++j) {
      if (i < 0x80 && j < 0x80 && unknown_ == Unknown::free) continue;
      const auto left = static_cast<uint32_t>(i < 0x80 ? i : kMark);
      const auto right = static_cast<uint32_t>(j < 0x80 ? j : kMark);
      const uint8_t last = i < 0x80 ? static_cast<uint8_t>(i) : kMarkBytes[2];
      const uint8_t lead = j < 0x80 ? static_cast<uint8_t>(j) : kMarkBytes[0];
      bool joined = has_parts_ && (is_joined(left, kLead + lead) || is_joined(kTail + last, right) ||
                                   is_joined(kTail + last, kLead + lead));
      if (unknown_ != Unknown::free) {
        const int unknown = !is_known(left) + !is_known(right);
        joined = joined || unknown == 2 || (unknown == 1 && unknown_ == Unknown::everywhere);
      }
      if (joined) join_small(i, j);
    }
}

void PieceCuts::note_unknown(const Symbols& symbols, std::span<const uint32_t> merges) {
  // A byte-level vocabulary has all bytes, or no pieces are cut.
  if (byte_level_) return;
  const SymbolOptions& options = symbols.options();
  std::vector<uint32_t> stand_ins = symbols.stand_ins();
  std::ranges::sort(stand_ins);
  bool merged = false;  // whether what stands for an unknown character takes part in a merge
  for (size_t at = 0; at < merges.size() && !merged; at += 3)
    merged = std::ranges::binary_search(stand_ins, merges[at]) ||
             std::ranges::binary_search(stand_ins, merges[at + 1]);
  const bool all_bytes = options.byte_fallback && symbols.has_all_fallbacks();
  if (merged || (!all_bytes && !options.has_unk))
    unknown_ = Unknown::everywhere;
  else if (!all_bytes && (options.fuse_unk || options.byte_fallback))
    unknown_ = Unknown::together;
  if (unknown_ != Unknown::free) known_ = symbols.known_characters();
}

bool PieceCuts::is_cut(TextCharacter left, uint8_t last_byte, TextCharacter right, uint8_t lead) const {
  if (spaces_are_marks_ && left.point == ' ') {
    left.point = kMark;
    last_byte = kMarkBytes[2];
  }
  if (spaces_are_marks_ && right.point == ' ') {
    right.point = kMark;
    lead = kMarkBytes[0];
  }
  // Bytes that are no text stay together.
  if (left.point >= kNoCharacter || right.point >= kNoCharacter) return false;
  if (is_joined(left.point, right.point)) return false;
  if (has_parts_ && (is_joined(left.point, kLead + lead) || is_joined(kTail + last_byte, right.point) ||
                     is_joined(kTail + last_byte, kLead + lead)))
    return false;
  if (unknown_ == Unknown::free) return true;
  const int unknown = !is_known(left.point) + !is_known(right.point);
  return unknown == 0 || (unknown == 1 && unknown_ == Unknown::together);
}

// How many bytes from `text` on are ASCII or whole U+2581, of 64.
unsigned PieceCuts::plain_bytes(const uint8_t* text) {
  const text::ScanBlock block(text);
  const uint64_t wide = block.wide();
  if (wide == 0) return text::kScanBlock;
  const uint64_t marks = marks_in(block);
  return static_cast<unsigned>(std::countr_zero(wide & ~(marks | marks << 1 | marks << 2)));
}

size_t PieceCuts::cut(const uint8_t* text, size_t size, size_t from, uint32_t* ends, size_t capacity) const {
  Cursor cursor{next_character(text + from, size - from), from};
  cursor.at += cursor.left.size;
  size_t count = 0;
  while (cursor.at < size && count < capacity) {
    const size_t room = capacity - count;
    if (size - cursor.at >= text::kScanBlock && room >= text::kScanBlock &&
        small_index(cursor.left.point) < kSmall)
      count += cut_plain(text, cursor, ends + count);
    if (cursor.at < size && count < capacity)
      count += cut_any(text, size, cursor, ends + count, capacity - count);
  }
  if (cursor.at >= size && count < capacity) ends[count++] = static_cast<uint32_t>(size);
  return count;
}

// Whether there is a cut at a byte after `from`, with which a character begins.
bool PieceCuts::is_cut_at(const uint8_t* text, size_t size, size_t from, size_t at) const {
  size_t begin = at - 1;
  if (text[begin] >= 0x80) {
    while (begin > from && at - begin < 4 && is_continuation(text[begin])) --begin;
  }
  const TextCharacter left = next_character(text + begin, at - begin);
  if (left.size != at - begin) return false;
  const TextCharacter right = next_character(text + at, size - at);
  const size_t i = small_index(left.point), j = small_index(right.point);
  return i < kSmall && j < kSmall ? small_cut(i, j) : is_cut(left, text[at - 1], right, text[at]);
}

// Whether all between a cut and a place is such a run: then there is a cut at the place too.
bool PieceCuts::is_separate_run(const uint8_t* text, size_t begin, size_t end) const {
  const size_t length = end - begin;
  return length < 64 && (separate_runs_ >> length & 1) != 0 &&
         std::all_of(text + begin, text + end, [](uint8_t byte) { return byte == ' '; });
}

size_t PieceCuts::cut_runs(const uint8_t* text, size_t size, size_t from, uint32_t* ends,
                           size_t capacity) const {
  size_t count = 0;
  // A block begins a byte before the first place that may be a cut, and ends two after the last one.
  constexpr unsigned kStep = text::kScanBlock - 3;
  uint8_t rest[text::kScanBlock] = {};
  size_t base = from;
  uint64_t space_before = 0;  // whether there is one before the block
  for (; base + 1 < size && count + kStep < capacity; base += kStep) {
    const uint8_t* block = text + base;
    uint64_t places = ((uint64_t{1} << kStep) - 1) << 1;
    if (size - base < text::kScanBlock) {
      std::memcpy(rest, block, size - base);
      block = rest;
      places &= (uint64_t{1} << (size - base)) - 1;
    }
    const text::ScanBlock bytes(block);
    const uint64_t wide = bytes.wide();
    const uint64_t spaces = spaces_are_marks_ ? bytes.equal(' ') : 0;
    const uint64_t marks = wide != 0 ? marks_in(bytes) : 0;
    const uint64_t in_marks = marks | marks << 1 | marks << 2;
    const uint64_t letters = bytes.letters() | (wide & ~in_marks);
    const uint64_t run_ends =
        separate_runs_ == 0 ? 0 : (spaces << 2 | space_before << 1) & spaces << 1 & ~(spaces | marks);
    space_before = spaces >> (kStep - 1) & 1;
    places &= run_ends | spaces | marks | ((letters ^ letters << 1) & ~(spaces << 1 | marks << 3));
    const uint64_t plain = ~wide | in_marks, both_plain = plain & plain << 1;
    for (; places != 0; places &= places - 1) {
      const auto place = static_cast<unsigned>(std::countr_zero(places));
      ends[count] = static_cast<uint32_t>(base + place);
      if ((run_ends >> place & 1) != 0) {
        count += is_separate_run(text, count == 0 ? from : ends[count - 1], base + place);
      } else if ((both_plain >> place & 1) != 0) [[likely]] {
        const size_t column = index_[block[place]];
        count += (rows_[index_[block[place - 1]]][column / 64] >> column % 64 & 1) ^ 1;
      } else {
        count += is_cut_at(text, size, from, base + place);
      }
    }
  }
  if (base + 1 >= size) ends[count++] = static_cast<uint32_t>(size);
  return count;
}

// ASCII and U+2581, up to 64 bytes. Bytes are looked up one by one: those of U+2581 are never parted, and
// beside it stands its first or its last.
size_t PieceCuts::cut_plain(const uint8_t* text, Cursor& cursor, uint32_t* ends) const {
  const uint8_t* const block = text + cursor.at;
  const unsigned plain = plain_bytes(block);
  if (plain == 0) return 0;
  size_t count = 0;
  const uint64_t* row = rows_[index_[block[-1]]].data();
  for (unsigned i = 0; i < plain; ++i) {
    const size_t index = index_[block[i]];
    // Written always and kept if it is one: whether there is a cut can't be predicted.
    ends[count] = static_cast<uint32_t>(cursor.at + i);
    count += (row[index / 64] >> index % 64 & 1) ^ 1;
    row = rows_[index].data();
  }
  cursor.at += plain;
  const uint8_t last = block[plain - 1];
  cursor.left = last < 0x80 ? TextCharacter{last, 1} : TextCharacter{kMark, 3};
  return count;
}

// One character, and those beyond ASCII that follow.
size_t PieceCuts::cut_any(const uint8_t* text, size_t size, Cursor& cursor, uint32_t* ends,
                          size_t capacity) const {
  size_t count = 0;
  do {
    const TextCharacter right = next_character(text + cursor.at, size - cursor.at);
    const size_t i = small_index(cursor.left.point), j = small_index(right.point);
    ends[count] = static_cast<uint32_t>(cursor.at);
    if (i < kSmall && j < kSmall)
      count += small_cut(i, j);
    else
      count += is_cut(cursor.left, text[cursor.at - 1], right, text[cursor.at]);
    cursor.at += right.size;
    cursor.left = right;
  } while (count < capacity && cursor.at < size && text[cursor.at] >= 0x80);
  return count;
}

}  // namespace krill::bpe
