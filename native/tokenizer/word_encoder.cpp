#include "tokenizer/word_encoder.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace krill::tokenizer {

void WordStatistics::add(const WordStatistics& other) {
  words += other.words;
  bytes += other.bytes;
  misses += other.misses;
  miss_bytes += other.miss_bytes;
  timed_bytes += other.timed_bytes;
  timed_nanoseconds += other.timed_nanoseconds;
}

template <class Id>
WordEncoder<Id>::WordEncoder(const Model& model, std::unique_ptr<WordCutter> cutter, size_t cache_bytes,
                             std::mutex& long_words)
    : model_(model),
      pieces_(model.pieces()),
      cutter_(std::move(cutter)),
      scratch_(model.make_scratch()),
      long_words_mutex_(long_words),
      short_words_(std::max(cache_bytes, kLeastCache) / 16 * 11),
      long_words_(std::max(cache_bytes, kLeastCache) / 16 * 4),
      longest_words_(std::max(cache_bytes, kLeastCache) / 16) {
  if (model.largest_id() > std::min<uint64_t>(std::numeric_limits<Id>::max(), PackedIds<Id>::kLargest))
    throw std::invalid_argument("an id of the model is too large");
}

template <class Id>
void WordEncoder<Id>::encode(const uint8_t* text, size_t size, GrowingBuffer<Id>& ids) {
  try {
    encode_words(text, size, ids);
  } catch (...) {
    // The model refused a word: the cache must not keep what it waits for.
    for (BatchWord& word : missed_) word.may_be_cached = false;
    clear_batch(size);
    throw;
  }
}

template <class Id>
void WordEncoder<Id>::encode_words(const uint8_t* text, size_t size, GrowingBuffer<Id>& ids) {
  statistics_.bytes += size;
  size_t begin = 0;
  while (begin < size) {
    const size_t count = cutter_->cut(text, size, begin, ends_, kBatch);
    for (size_t i = 0; i < count;) {
      i += add_short_words(text, size, begin, ends_ + i, count - i, false);
      if (unit_count_ == kAhead) {
        look_up(text, size);
      } else if (i < count) {
        const size_t end = ends_[i] & ~WordCutter::kDropped;
        if (end == ends_[i]) add_word(text, size, begin, end, ids);
        begin = end;
        ++i;
      }
    }
    if (batched_ >= kBatch) finish_batch(text, size, ids);
  }
  finish_batch(text, size, ids);
}

// Takes words until one is not short, and returns how many; `begin` is the first one's, and then the next
// one's.
template <class Id>
inline size_t WordEncoder<Id>::add_short_words(const uint8_t* text, size_t size, size_t& begin,
                                               const uint32_t* ends, size_t count, bool are_pieces) {
  count = std::min(count, kAhead - unit_count_);
  Unit* const units = units_ + unit_count_;
  size_t at = begin, i = 0;
  for (; i < count; ++i) {
    const size_t length = ends[i] - at;
    // One that is left out seems to be very long.
    if (length > ShortTable::Key::kLongest) [[unlikely]]
      break;
    Unit& unit = units[i];
    unit.key = ShortTable::Key::load(text + at, length, size - at);
    unit.set = short_words_.locate(unit.key);
    unit.begin = static_cast<uint32_t>(at);
    unit.size = static_cast<uint32_t>(length) & 0x7fffffff;
    unit.is_piece = are_pieces ? 1 : 0;
    at = ends[i];
  }
  unit_count_ += i;
  begin = at;
  return i;
}

// A word that is longer than the short ones: in pieces if its model cuts it.
template <class Id>
void WordEncoder<Id>::add_word(const uint8_t* text, size_t size, size_t begin, size_t end,
                               GrowingBuffer<Id>& ids) {
  const uint8_t* const word = text + begin;
  // Words of scripts with more than two bytes a character are often sentences; others repeat as they are.
  const bool repeats =
      end - begin <= LongTable::Key::kLongest && std::max(word[1], word[(end - begin) / 2]) < 0xe0;
  const bool whole = pieces_ == nullptr || repeats || model_.is_whole(word, end - begin);
  for (size_t from = begin; from < end;) {
    piece_ends_[0] = static_cast<uint32_t>(end);
    const size_t count = whole ? 1 : pieces_->cut(text, end, from, piece_ends_, kBatch);
    for (size_t i = 0; i < count;) {
      // A word of one piece is longer than the short ones.
      i += add_short_words(text, size, from, piece_ends_ + i, count - i, true);
      if (unit_count_ == kAhead) {
        look_up(text, size);
      } else if (i < count) {
        const size_t piece_end = piece_ends_[i++];
        const bool is_piece = piece_end - from < end - begin;
        if (piece_end - from <= LongestTable::Key::kLongest) [[likely]] {
          add_unit(text, size, from, piece_end, is_piece);
        } else {
          finish_batch(text, size, ids);
          encode_long(text + from, piece_end - from, is_piece, ids);
        }
        from = piece_end;
      }
    }
    if (batched_ >= kBatch) finish_batch(text, size, ids);
  }
}

template <class Id>
inline void WordEncoder<Id>::add_unit(const uint8_t* text, size_t size, size_t begin, size_t end,
                                      bool is_piece) {
  Unit& unit = units_[unit_count_++];
  const size_t length = end - begin;
  unit.begin = static_cast<uint32_t>(begin);
  unit.size = static_cast<uint32_t>(length) & 0x7fffffff;
  unit.is_piece = is_piece ? 1 : 0;
  if (length <= ShortTable::Key::kLongest) [[likely]] {
    unit.key = ShortTable::Key::load(text + begin, length, size - begin);
    unit.set = short_words_.locate(unit.key);
  } else if (length <= LongTable::Key::kLongest) {
    unit.set = long_words_.locate(LongTable::Key::load(text + begin, length, size - begin));
  } else {
    unit.set = longest_words_.locate(LongestTable::Key::load(text + begin, length, size - begin));
  }
}

template <class Id>
void WordEncoder<Id>::look_up(const uint8_t* text, size_t size) {
  // Those from the cache are copied in blocks.
  Id* out = found_.room(kAhead * LongestTable::kMaxIds);
  const Unit* const end = units_ + unit_count_;
  for (const Unit* unit = units_; unit != end; ++unit) {
    const uint8_t* const word = text + unit->begin;
    if (unit->size <= ShortTable::Key::kLongest) [[likely]]
      out = look_up_in<ShortTable>(*unit, unit->key, word, out);
    else if (unit->size <= LongTable::Key::kLongest)
      out =
          look_up_in<LongTable>(*unit, LongTable::Key::load(word, unit->size, size - unit->begin), word, out);
    else
      out = look_up_in<LongestTable>(*unit, LongestTable::Key::load(word, unit->size, size - unit->begin),
                                     word, out);
  }
  found_.set_end(out);
  batched_ += unit_count_;
  unit_count_ = 0;
}

template <class Id>
template <class Table>
inline Id* WordEncoder<Id>::look_up_in(const Unit& unit, const typename Table::Key& key, const uint8_t* word,
                                       Id* out) {
  const auto* const entry = Table::find(*static_cast<typename Table::Set*>(unit.set), key);
  if (entry != nullptr) [[likely]] {
    PackedIds<Id>::template load<Table::kMaxIds>(entry->ids, out);
    const size_t count = entry->count();
    if (count != Table::kPending) [[likely]]
      return out + count;
  }
  add_miss<Table>(entry, unit, key, word, out);
  return out;
}

template <class Id>
template <class Table>
[[gnu::noinline]] void WordEncoder<Id>::add_miss(const typename Table::Entry* entry, const Unit& unit,
                                                 const typename Table::Key& key, const uint8_t* word,
                                                 const Id* out) {
  const auto before = static_cast<uint32_t>(out - found_.data());
  if (entry != nullptr) {
    uint32_t number;
    std::memcpy(&number, entry->ids, sizeof number);
    // The same bytes may have other ids as a word and as a piece.
    if (missed_[number].is_piece == unit.is_piece) {
      misses_.push_back({number, before});
      return;
    }
  }
  const auto number = static_cast<uint32_t>(missed_.size());
  if (entry == nullptr) Table::insert_pending(*static_cast<typename Table::Set*>(unit.set), key, number);
  misses_.push_back({number, before});
  missed_.push_back({word, unit.size, unit.is_piece != 0, true, 0, nullptr});
  missed_units_.push_back(unit);
  missed_bytes_ += unit.size;
}

// The ids of all words that were looked up, in their order.
template <class Id>
void WordEncoder<Id>::finish_batch(const uint8_t* text, size_t size, GrowingBuffer<Id>& ids) {
  look_up(text, size);
  size_t total = found_.size();
  if (!misses_.empty()) {
    encode_missed();
    for (const Miss& miss : misses_) total += missed_[miss.number].count;
  }
  Id* out = ids.room(total + 1);
  const Id* found = found_.data();
  const auto copy_to = [&](const Id* end) {
    std::memcpy(out, found, static_cast<size_t>(end - found) * sizeof(Id));
    out += end - found;
    found = end;
  };
  for (const Miss& miss : misses_) {
    copy_to(found_.data() + miss.before);
    const BatchWord& word = missed_[miss.number];
    for (size_t i = 0; i < word.count; ++i) *out++ = static_cast<Id>(word.ids[i]);
  }
  copy_to(found_.data() + found_.size());
  ids.set_end(out);
  clear_batch(size);
}

template <class Id>
void WordEncoder<Id>::clear_batch(size_t size) {
  for (size_t i = 0; i < missed_.size(); ++i)
    resolve(missed_units_[i], missed_[i], size - missed_units_[i].begin);
  statistics_.words += batched_;
  batched_ = 0;
  unit_count_ = 0;
  found_.truncate(0);
  misses_.clear();
  missed_.clear();
  missed_units_.clear();
  missed_bytes_ = 0;
}

template <class Id>
void WordEncoder<Id>::encode_missed() {
  uint32_t* ids = missed_ids_.resize_for_overwrite(missed_bytes_).data();
  for (BatchWord& word : missed_) {
    word.ids = ids;
    ids += word.size;
  }
  const auto begun = std::chrono::steady_clock::now();
  model_.encode_batch(missed_, *scratch_);
  const auto taken = std::chrono::steady_clock::now() - begun;
  const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(taken).count();
  statistics_.misses += missed_.size();
  statistics_.miss_bytes += missed_bytes_;
  if (static_cast<size_t>(nanoseconds) > kInterrupted * (missed_bytes_ + 16)) return;
  statistics_.timed_bytes += missed_bytes_;
  statistics_.timed_nanoseconds += static_cast<uint64_t>(nanoseconds);
}

template <class Id>
void WordEncoder<Id>::resolve(const Unit& unit, const BatchWord& word, size_t readable) {
  const auto in = [&]<class Table>(const Table&, const typename Table::Key& key) {
    Table::resolve(*static_cast<typename Table::Set*>(unit.set), key, word.ids, word.count,
                   word.may_be_cached);
  };
  if (unit.size <= ShortTable::Key::kLongest)
    in(short_words_, unit.key);
  else if (unit.size <= LongTable::Key::kLongest)
    in(long_words_, LongTable::Key::load(word.data, unit.size, readable));
  else
    in(longest_words_, LongestTable::Key::load(word.data, unit.size, readable));
}

// A word that is longer than all entries of the cache, alone.
template <class Id>
void WordEncoder<Id>::encode_long(const uint8_t* word, size_t size, bool is_piece, GrowingBuffer<Id>& ids) {
  ++statistics_.words;
  ++statistics_.misses;
  statistics_.miss_bytes += size;
  std::unique_lock lock(long_words_mutex_, std::defer_lock);
  if (size > kSharedScratch) lock.lock();
  BatchWord asked{word, static_cast<uint32_t>(size), is_piece, false, 0, nullptr};
  if constexpr (sizeof(Id) == sizeof(uint32_t)) {
    asked.ids = ids.room(size);
    model_.encode_batch({&asked, 1}, *scratch_);
    ids.set_end(asked.ids + asked.count);
  } else {
    asked.ids = word_ids_.resize_for_overwrite(size).data();
    model_.encode_batch({&asked, 1}, *scratch_);
    Id* const out = ids.room(asked.count);
    for (size_t i = 0; i < asked.count; ++i) out[i] = static_cast<Id>(asked.ids[i]);
    ids.set_end(out + asked.count);
  }
  if (size <= kSharedScratch) return;
  word_ids_ = {};
  scratch_->release();
}

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
        add_unit(text, size, from, piece_ends_[i], is_piece);
        unit_count_ = 0;
        known = add_unit_lengths(text, size, units_[0]);
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
bool WordEncoder<Id>::add_unit_lengths(const uint8_t* text, size_t size, const Unit& unit) {
  const uint8_t* const word = text + unit.begin;
  const size_t readable = size - unit.begin;
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

template class WordEncoder<uint16_t>;
template class WordEncoder<uint32_t>;

}  // namespace krill::tokenizer
