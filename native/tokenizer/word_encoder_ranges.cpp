// Tokens of a text with where they lie in it: word by word, through the same cache.
#include <algorithm>
#include <cstdint>
#include <mutex>

#include "tokenizer/word_encoder.hpp"

namespace krill::tokenizer {

template <class Id>
void WordEncoder<Id>::encode_ranges(const uint8_t* text, size_t size, GrowingBuffer<Id>& ids,
                                    GrowingBuffer<TokenRange>& ranges) {
  statistics_.bytes += size;
  size_t begin = 0;
  while (begin < size) {
    const size_t count = cutter_->cut(text, size, begin, ends_, kBatch);
    for (size_t i = 0; i < count; ++i) {
      const size_t end = ends_[i] & ~WordCutter::kDropped;
      if (end == ends_[i]) add_ranges(text, size, begin, end, ids, ranges);
      begin = end;
    }
  }
}

// One word: its ids and their lengths, then where they lie.
template <class Id>
void WordEncoder<Id>::add_ranges(const uint8_t* text, size_t size, size_t begin, size_t end,
                                 GrowingBuffer<Id>& ids, GrowingBuffer<TokenRange>& ranges) {
  word_ids_.truncate(0);
  word_lengths_.truncate(0);
  const bool whole = pieces_ == nullptr || end - begin <= ShortTable::Key::kLongest ||
                     model_.is_whole(text + begin, end - begin);
  bool known = true;
  for (size_t from = begin; from < end && known;) {
    piece_ends_[0] = static_cast<uint32_t>(end);
    const size_t count = whole ? 1 : pieces_->cut(text, end, from, piece_ends_, kBatch);
    for (size_t i = 0; i < count && known; from = piece_ends_[i++]) {
      const bool is_piece = piece_ends_[i] - from < end - begin;
      if (piece_ends_[i] - from > LongestTable::Key::kLongest) {
        known = !is_piece || model_.pieces_are_words();
        if (known) add_whole_lengths(text + from, piece_ends_[i] - from);
      } else {
        add_unit({text, size, size}, from, piece_ends_[i], is_piece);
        unit_count_ = 0;
        long_units_ = false;
        known = add_unit_lengths({text, size, size}, units_[0]);
      }
    }
  }
  if (!known) {
    word_ids_.truncate(0);
    word_lengths_.truncate(0);
    add_whole_lengths(text + begin, end - begin);
  }
  letters_.clear();
  for (size_t byte = begin; model_.counts_letters() && byte < end; ++byte)
    letters_.insert(letters_.end(), text[byte] >= 0x21 && text[byte] <= 0x7e ? 1 : 2,
                    static_cast<uint32_t>(byte));
  size_t at = model_.counts_letters() ? 0 : begin;
  TokenRange range{static_cast<uint32_t>(begin), static_cast<uint32_t>(begin)};
  for (size_t i = 0; i < word_ids_.size(); ++i) {
    if (const size_t length = word_lengths_[i]; length != 0) {
      range = model_.counts_letters()
                  ? TokenRange{letters_[at], letters_[at + length - 1] + 1}
                  : TokenRange{static_cast<uint32_t>(at), static_cast<uint32_t>(at + length)};
      at += length;
    }
    ids.push_back(static_cast<Id>(word_ids_[i]));
    ranges.push_back(range);
  }
}

// Whether the lengths of its tokens could be told.
template <class Id>
bool WordEncoder<Id>::add_unit_lengths(const Text& text, const Unit& unit) {
  const uint8_t* const word = text.data + unit.begin;
  const size_t readable = text.readable - unit.begin;
  uint32_t* const ids = word_ids_.room(unit.size);
  size_t count;
  if (unit.size <= ShortTable::Key::kLongest)
    count = unit_ids<ShortTable>(unit, unit.key, word, ids);
  else if (unit.size <= LongTable::Key::kLongest)
    count = unit_ids<LongTable>(unit, LongTable::Key::load(word, unit.size, readable), word, ids);
  else
    count = unit_ids<LongestTable>(unit, LongestTable::Key::load(word, unit.size, readable), word, ids);
  ++statistics_.words;
  uint32_t* const lengths = word_lengths_.room(unit.size);
  for (size_t i = 0; i < count; ++i) {
    lengths[i] = model_.length_of(ids[i]);
    if (lengths[i] != 0) continue;
    if (unit.is_piece && !model_.pieces_are_words()) return false;
    add_whole_lengths(word, unit.size);
    return true;
  }
  word_ids_.set_end(ids + count);
  word_lengths_.set_end(lengths + count);
  return true;
}

template <class Id>
template <class Table>
size_t WordEncoder<Id>::unit_ids(const Unit& unit, const typename Table::Key& key, const uint8_t* word,
                                 uint32_t* ids) {
  auto& set = *static_cast<typename Table::Set*>(unit.set);
  if (const auto* const entry = Table::find(set, key)) {
    Id found[Table::kMaxIds];
    PackedIds<Id>::template load<Table::kMaxIds>(entry->ids, found);
    std::copy_n(found, entry->count(), ids);
    return entry->count();
  }
  BatchWord asked{word, unit.size, unit.is_piece != 0, true, 0, ids};
  model_.encode_batch({&asked, 1}, *scratch_);
  ++statistics_.misses;
  statistics_.miss_bytes += unit.size;
  if (asked.may_be_cached) Table::insert(set, key, ids, asked.count);
  return asked.count;
}

template <class Id>
void WordEncoder<Id>::add_whole_lengths(const uint8_t* word, size_t size) {
  std::unique_lock lock(long_words_mutex_, std::defer_lock);
  if (size > kSharedScratch) lock.lock();
  uint32_t* const ids = word_ids_.room(size);
  uint32_t* const lengths = word_lengths_.room(size);
  const size_t count = model_.encode(word, size, ids, lengths, *scratch_);
  word_ids_.set_end(ids + count);
  word_lengths_.set_end(lengths + count);
  if (size > kSharedScratch) scratch_->release();
}

template void WordEncoder<uint16_t>::encode_ranges(const uint8_t*, size_t, GrowingBuffer<uint16_t>&,
                                                   GrowingBuffer<TokenRange>&);
template void WordEncoder<uint32_t>::encode_ranges(const uint8_t*, size_t, GrowingBuffer<uint32_t>&,
                                                   GrowingBuffer<TokenRange>&);

}  // namespace krill::tokenizer
