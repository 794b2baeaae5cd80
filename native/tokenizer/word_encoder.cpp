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

namespace {

// Ids are copied in blocks, the last of them from and to beyond the end, where there must be room: how many
// there are can't be predicted, and the next ones overwrite what is too much.
constexpr size_t kManyIds = 16, kFewIds = 4;

template <size_t kBlock, class From, class To>
To* copy_blocks(const From* from, const From* end, To* to) {
  const auto count = static_cast<size_t>(end - from);
  for (size_t begin = 0; begin < count; begin += kBlock)
    for (size_t i = begin; i < begin + kBlock; ++i) to[i] = static_cast<To>(from[i]);
  return to + count;
}

}  // namespace

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
template <class Out>
void WordEncoder<Id>::encode(const uint8_t* data, size_t size, size_t readable, GrowingBuffer<Out>& ids) {
  const Text text{data, size, readable};
  statistics_.bytes += size;
  size_t begin = 0;
  while (begin < size) {
    const size_t count = cutter_->cut(data, size, begin, ends_, kBatch);
    add_words(text, begin, ends_, count, false,
              [&](size_t from, size_t end) { add_word(text, from, end, ids); });
    if (batched_ >= kBatch) finish_batch(text, ids);
  }
  if (long_units_) look_up(text);
}

template <class Id>
void WordEncoder<Id>::add(Id id) {
  if (unit_count_ == kAhead) look_up({});
  Unit& unit = units_[unit_count_++];
  unit.begin = id;
  unit.size = kAdded;
}

template <class Id>
template <class Out>
void WordEncoder<Id>::finish(GrowingBuffer<Out>& ids) {
  finish_batch({}, ids);
}

template <class Id>
void WordEncoder<Id>::discard() {
  // The cache must not keep what it waits for.
  for (BatchWord& word : missed_) word.may_be_cached = false;
  clear_batch();
}

// Takes words until one is not short, and returns how many; `begin` is the first one's, and then the next
// one's.
template <class Id>
inline size_t WordEncoder<Id>::add_short_words(const Text& text, size_t& begin, const uint32_t* ends,
                                               size_t count, bool are_pieces) {
  count = std::min(count, kAhead - unit_count_);
  Unit* const units = units_ + unit_count_;
  size_t at = begin, i = 0;
  for (; i < count; ++i) {
    const size_t length = ends[i] - at;
    // One that is left out seems to be very long.
    if (length > ShortTable::Key::kLongest) [[unlikely]]
      break;
    Unit& unit = units[i];
    unit.key = ShortTable::Key::load(text.data + at, length, text.readable - at);
    unit.set = short_words_.locate(unit.key);
    unit.begin = static_cast<uint32_t>(at);
    unit.size = static_cast<uint32_t>(length) & kAdded;
    unit.is_piece = are_pieces ? 1 : 0;
    at = ends[i];
  }
  unit_count_ += i;
  begin = at;
  return i;
}

// All words up to the last of `ends`; those that are not short go to `add_long`.
template <class Id>
template <class AddLong>
inline void WordEncoder<Id>::add_words(const Text& text, size_t& begin, const uint32_t* ends, size_t count,
                                       bool are_pieces, AddLong&& add_long) {
  for (size_t i = 0; i < count;) {
    i += add_short_words(text, begin, ends + i, count - i, are_pieces);
    if (unit_count_ == kAhead) {
      look_up(text);
    } else if (i < count) {
      const size_t end = ends[i] & ~WordCutter::kDropped;
      if (end == ends[i++]) add_long(begin, end);
      begin = end;
    }
  }
}

// A word that is longer than the short ones: in runs or in pieces if its model cuts it.
template <class Id>
template <class Out>
void WordEncoder<Id>::add_word(const Text& text, size_t begin, size_t end, GrowingBuffer<Out>& ids) {
  if (pieces_ == nullptr || !pieces_->has_runs() || model_.is_whole(text.data + begin, end - begin))
    return add_pieces(text, begin, end, false, ids);
  for (size_t from = begin; from < end;) {
    const size_t count = pieces_->cut_runs(text.data, end, from, run_ends_, kBatch);
    const bool is_piece = run_ends_[0] < end || from > begin;
    add_words(text, from, run_ends_, count, is_piece,
              [&](size_t first, size_t last) { add_pieces(text, first, last, is_piece, ids); });
    if (batched_ >= kBatch) finish_batch(text, ids);
  }
}

template <class Id>
template <class Out>
void WordEncoder<Id>::add_pieces(const Text& text, size_t begin, size_t end, bool is_piece,
                                 GrowingBuffer<Out>& ids) {
  const uint8_t* const word = text.data + begin;
  // Words of scripts with more than two bytes a character are often sentences; others repeat as they are.
  const bool repeats =
      end - begin <= LongTable::Key::kLongest && std::max(word[1], word[(end - begin) / 2]) < 0xe0;
  const bool whole = pieces_ == nullptr || repeats || (!is_piece && model_.is_whole(word, end - begin));
  for (size_t from = begin; from < end;) {
    piece_ends_[0] = static_cast<uint32_t>(end);
    const size_t count = whole ? 1 : pieces_->cut(text.data, end, from, piece_ends_, kBatch);
    // A word of one piece is longer than the short ones.
    add_words(text, from, piece_ends_, count, true, [&](size_t first, size_t last) {
      const bool is_part = is_piece || last - first < end - begin;
      if (last - first <= LongestTable::Key::kLongest) [[likely]]
        return add_unit(text, first, last, is_part);
      finish_batch(text, ids);
      encode_long(text.data + first, last - first, is_part, ids);
    });
    if (batched_ >= kBatch) finish_batch(text, ids);
  }
}

template <class Id>
void WordEncoder<Id>::add_unit(const Text& text, size_t begin, size_t end, bool is_piece) {
  Unit& unit = units_[unit_count_++];
  const uint8_t* const word = text.data + begin;
  const size_t length = end - begin, readable = text.readable - begin;
  unit.begin = static_cast<uint32_t>(begin);
  unit.size = static_cast<uint32_t>(length) & kAdded;
  unit.is_piece = is_piece ? 1 : 0;
  if (length <= ShortTable::Key::kLongest) [[likely]] {
    unit.key = ShortTable::Key::load(word, length, readable);
    unit.set = short_words_.locate(unit.key);
    return;
  }
  long_units_ = true;
  unit.set = length <= LongTable::Key::kLongest
                 ? static_cast<void*>(long_words_.locate(LongTable::Key::load(word, length, readable)))
                 : longest_words_.locate(LongestTable::Key::load(word, length, readable));
}

template <class Id>
void WordEncoder<Id>::look_up(const Text& text) {
  // Those from the cache are copied in blocks.
  Id* out = found_.room(kAhead * LongestTable::kMaxIds);
  const Unit* const end = units_ + unit_count_;
  size_t added = 0;
  for (const Unit* unit = units_; unit != end; ++unit) {
    if (unit->size <= ShortTable::Key::kLongest) [[likely]] {
      // The key begins with the word: its text may be gone.
      out = look_up_in<ShortTable>(*unit, unit->key, unit->key.bytes(), out);
      continue;
    }
    if (unit->size == kAdded) {
      *out++ = static_cast<Id>(unit->begin);
      ++added;
      continue;
    }
    const uint8_t* const word = text.data + unit->begin;
    const size_t readable = text.readable - unit->begin;
    if (unit->size <= LongTable::Key::kLongest)
      out = look_up_in<LongTable>(*unit, LongTable::Key::load(word, unit->size, readable), word, out);
    else
      out = look_up_in<LongestTable>(*unit, LongestTable::Key::load(word, unit->size, readable), word, out);
  }
  found_.set_end(out);
  statistics_.words += unit_count_ - added;
  batched_ += unit_count_;
  unit_count_ = 0;
  long_units_ = false;
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
  missed_.push_back({nullptr, unit.size, unit.is_piece != 0, true, 0, nullptr});
  missed_units_.push_back(unit);
  missed_units_.back().begin = static_cast<uint32_t>(missed_text_.size());
  missed_text_.append(word, unit.size);
}

// The ids of all words that were looked up, in their order.
template <class Id>
template <class Out>
void WordEncoder<Id>::finish_batch(const Text& text, GrowingBuffer<Out>& ids) {
  look_up(text);
  size_t total = found_.size();
  if (!misses_.empty()) {
    encode_missed();
    for (const Miss& miss : misses_) total += missed_[miss.number].count;
  }
  Out* out = ids.room(total + kManyIds);
  const Id* found = found_.data();
  const auto copy_to = [&](const Id* end) {
    out = copy_blocks<kManyIds>(found, end, out);
    found = end;
  };
  for (const Miss& miss : misses_) {
    copy_to(found_.data() + miss.before);
    const BatchWord& word = missed_[miss.number];
    out = copy_blocks<kFewIds>(word.ids, word.ids + word.count, out);
  }
  copy_to(found_.data() + found_.size());
  ids.set_end(out);
  clear_batch();
}

template <class Id>
void WordEncoder<Id>::clear_batch() {
  for (size_t i = 0; i < missed_.size(); ++i) resolve(missed_units_[i], missed_[i]);
  batched_ = 0;
  unit_count_ = 0;
  long_units_ = false;
  found_.truncate(0);
  misses_.clear();
  missed_.clear();
  missed_units_.clear();
  missed_text_.truncate(0);
}

template <class Id>
void WordEncoder<Id>::encode_missed() {
  const size_t bytes = missed_text_.size();
  const uint8_t* text = missed_text_.data();
  uint32_t* ids = missed_ids_.resize_for_overwrite(bytes + kFewIds).data();
  for (BatchWord& word : missed_) {
    word.data = text;
    word.ids = ids;
    text += word.size;
    ids += word.size;
  }
  const auto begun = std::chrono::steady_clock::now();
  model_.encode_batch(missed_, *scratch_);
  const auto taken = std::chrono::steady_clock::now() - begun;
  const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(taken).count();
  statistics_.misses += missed_.size();
  statistics_.miss_bytes += bytes;
  if (static_cast<size_t>(nanoseconds) > kInterrupted * (bytes + 16)) return;
  statistics_.timed_bytes += bytes;
  statistics_.timed_nanoseconds += static_cast<uint64_t>(nanoseconds);
}

template <class Id>
void WordEncoder<Id>::resolve(const Unit& unit, const BatchWord& word) {
  const uint8_t* const bytes = missed_text_.data() + unit.begin;
  const size_t readable = missed_text_.size() - unit.begin;
  const auto in = [&]<class Table>(const Table&, const typename Table::Key& key) {
    Table::resolve(*static_cast<typename Table::Set*>(unit.set), key, word.ids, word.count,
                   word.may_be_cached);
  };
  if (unit.size <= ShortTable::Key::kLongest)
    in(short_words_, unit.key);
  else if (unit.size <= LongTable::Key::kLongest)
    in(long_words_, LongTable::Key::load(bytes, unit.size, readable));
  else
    in(longest_words_, LongestTable::Key::load(bytes, unit.size, readable));
}

// A word that is longer than all entries of the cache, alone.
template <class Id>
template <class Out>
void WordEncoder<Id>::encode_long(const uint8_t* word, size_t size, bool is_piece, GrowingBuffer<Out>& ids) {
  ++statistics_.words;
  ++statistics_.misses;
  statistics_.miss_bytes += size;
  std::unique_lock lock(long_words_mutex_, std::defer_lock);
  if (size > kSharedScratch) lock.lock();
  BatchWord asked{word, static_cast<uint32_t>(size), is_piece, false, 0, nullptr};
  if constexpr (sizeof(Out) == sizeof(uint32_t)) {
    asked.ids = ids.room(size);
    model_.encode_batch({&asked, 1}, *scratch_);
    ids.set_end(asked.ids + asked.count);
  } else {
    asked.ids = word_ids_.resize_for_overwrite(size).data();
    model_.encode_batch({&asked, 1}, *scratch_);
    Out* const out = ids.room(asked.count);
    for (size_t i = 0; i < asked.count; ++i) out[i] = static_cast<Out>(asked.ids[i]);
    ids.set_end(out + asked.count);
  }
  if (size <= kSharedScratch) return;
  word_ids_ = {};
  scratch_->release();
}

template class WordEncoder<uint16_t>;
template class WordEncoder<uint32_t>;
template void WordEncoder<uint16_t>::encode(const uint8_t*, size_t, size_t, GrowingBuffer<uint16_t>&);
template void WordEncoder<uint16_t>::encode(const uint8_t*, size_t, size_t, GrowingBuffer<uint32_t>&);
template void WordEncoder<uint32_t>::encode(const uint8_t*, size_t, size_t, GrowingBuffer<uint32_t>&);
template void WordEncoder<uint16_t>::finish(GrowingBuffer<uint16_t>&);
template void WordEncoder<uint16_t>::finish(GrowingBuffer<uint32_t>&);
template void WordEncoder<uint32_t>::finish(GrowingBuffer<uint32_t>&);

}  // namespace krill::tokenizer
