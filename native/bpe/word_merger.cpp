#include "bpe/word_merger.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "check.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace krill::bpe {

namespace {

constexpr int32_t kNever = MergeTable::kNever;

// Ranks are searched four at a time, without a branch: which one is the least can't be predicted.
typedef int32_t Four __attribute__((vector_size(16)));

Four lesser(Four left, Four right) { return left < right ? left : right; }

int32_t least_of(Four four) {
  four = lesser(four, __builtin_shufflevector(four, four, 2, 3, 0, 1));
  return lesser(four, __builtin_shufflevector(four, four, 1, 0, 3, 2))[0];
}

static_assert(WordMerger::kShort + 2 == size_t{1} << MergeTable::kPlaceBits);

// A place for each symbol of a short word and for two sentinels.
using Places = std::array<uint8_t, WordMerger::kShort + 2>;

constexpr Places counted_from(uint8_t first) {
  Places places{};
  for (uint8_t& place : places) place = first++;
  return places;
}

// A word of up to kShort symbols while it is merged. Sentinels before the first symbol and after the last
// make that no symbol is a special case.
//
// A merge has two halves. `choose` finds the pair, joins it and says which slots of the table will be needed;
// `look_up` reads them. Between the two, and from one merge to the next, other words are worked on.
class MergingWord {
 public:
  void begin(const MergeTable& merges, SymbolRun& word) {
    word_ = &word;
    const size_t count = word.count;
    keys_end_ = count < kFewKeys ? kFewKeys : kPlaces;
    std::fill_n(keys_, kFewKeys, kNever);
    if (keys_end_ > kFewKeys) [[unlikely]]
      std::fill_n(keys_ + kFewKeys, kPlaces - kFewKeys, kNever);
    before_ = kBefore;
    after_ = kAfter;
    last_ = static_cast<uint32_t>(count + 1);
    symbols_[0] = symbols_[last_] = MergeTable::kNoSymbol;
    for (uint32_t i = 0; i < count; ++i) {
      symbols_[i + 1] = merges.symbol(word.ids[i]);
      set(i, merges.slot(symbols_[i], symbols_[i + 1]));
    }
  }

  // False if no pair merges.
  bool choose(const MergeTable& merges) {
    const int32_t least = least_key();
    if (least >= kNever) return false;
    at_ = static_cast<uint32_t>(least) & ((1u << MergeTable::kPlaceBits) - 1);
    const size_t right = after_[at_], after = after_[right], before = before_[at_];
    after_[at_] = static_cast<uint8_t>(after);
    before_[after] = static_cast<uint8_t>(at_);
    const MergeTable::Symbol joined = joined_[at_];
    symbols_[at_] = joined;
    keys_[right] = kNever;
    left_slot_ = &merges.slot(symbols_[before], joined);
    right_slot_ = &merges.slot(joined, symbols_[after]);
    __builtin_prefetch(left_slot_);
    __builtin_prefetch(right_slot_);
    return true;
  }

  void look_up() {
    set(before_[at_], *left_slot_);
    set(at_, *right_slot_);
  }

  // Writes the tokens over the symbols.
  void finish(uint32_t* lengths = nullptr) {
    size_t written = 0;
    for (uint32_t at = after_[0]; at != last_; at = after_[at], ++written) {
      word_->ids[written] = MergeTable::id_of(symbols_[at]);
      if (lengths == nullptr) continue;
      uint32_t sum = 0;
      for (uint32_t i = at; i < after_[at]; ++i) sum += lengths[i - 1];
      lengths[written] = sum;
    }
    word_->count = written;
  }

 private:
  static constexpr size_t kPlaces = WordMerger::kShort + 2;
  // Most words have less: then the other keys are not looked at.
  static constexpr size_t kFewKeys = kPlaces / 2;
  static constexpr Places kBefore = counted_from(0xff), kAfter = counted_from(1);

  // The pair of a symbol and the next. Order and place are one number, so that the least is the leftmost of
  // the lowest rank.
  void set(uint32_t left, const MergeTable::Slot& slot) {
    joined_[left] = slot.joined;
    keys_[left] = slot.order_in(MergeTable::row_of(symbols_[left])) | static_cast<int32_t>(left);
  }

  int32_t least_key() const {
#if defined(__SSE2__)
    const auto* const keys = reinterpret_cast<const float*>(keys_);
    __m128 least = _mm_load_ps(keys);
    const auto add = [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; i += 4) least = _mm_min_ps(least, _mm_load_ps(keys + i));
    };
    add(4, kFewKeys);
    if (keys_end_ > kFewKeys) [[unlikely]]
      add(kFewKeys, kPlaces);
    least = _mm_min_ps(least, _mm_shuffle_ps(least, least, _MM_SHUFFLE(1, 0, 3, 2)));
    least = _mm_min_ps(least, _mm_shuffle_ps(least, least, _MM_SHUFFLE(2, 3, 0, 1)));
    return _mm_cvtsi128_si32(_mm_castps_si128(least));
#else
    Four least;
    std::memcpy(&least, keys_, sizeof least);
    for (size_t i = 4; i < keys_end_; i += 4) {
      Four four;
      std::memcpy(&four, keys_ + i, sizeof four);
      least = lesser(least, four);
    }
    return least_of(least);
#endif
  }

  alignas(16) int32_t keys_[kPlaces];
  MergeTable::Symbol symbols_[kPlaces];
  MergeTable::Symbol joined_[kPlaces];  // of a symbol and the next
  Places before_;                       // where the symbols beside one that is left begin
  Places after_;
  size_t keys_end_;
  uint32_t last_;  // the sentinel behind the word
  uint32_t at_;
  const MergeTable::Slot* left_slot_;
  const MergeTable::Slot* right_slot_;
  SymbolRun* word_;
};

template <class T>
T* make_room(std::optional<Buffer<T>>& buffer, size_t size) {
  if (!buffer || buffer->size() < size) buffer.emplace(size);
  return buffer->data();
}

}  // namespace

void MergeScratch::prepare(size_t size) {
  blocks_ = (size + kBlock - 1) / kBlock;
  leaves_ = std::bit_ceil(blocks_);
  make_room(ends_, size);
  std::fill_n(make_room(ranks_, blocks_ * kBlock), blocks_ * kBlock, kNever);
  std::fill_n(make_room(tree_, 2 * leaves_), 2 * leaves_, kNever);
}

void MergeScratch::release() {
  ranks_.reset();
  ends_.reset();
  tree_.reset();
}

int32_t MergeScratch::block_least(size_t block) const {
  Four least = {kNever, kNever, kNever, kNever};
  for (size_t i = 0; i < kBlock; i += 4) {
    Four four;
    std::memcpy(&four, ranks_->data() + block * kBlock + i, sizeof four);
    least = lesser(least, four);
  }
  return least_of(least);
}

void MergeScratch::build() {
  Buffer<int32_t>& tree = *tree_;
  for (size_t block = 0; block < blocks_; ++block) tree[leaves_ + block] = block_least(block);
  for (size_t node = leaves_ - 1; node >= 1; --node)
    tree[node] = std::min(tree[2 * node], tree[2 * node + 1]);
}

size_t MergeScratch::first_least() const {
  const Buffer<int32_t>& tree = *tree_;
  size_t node = 1;
  while (node < leaves_) node = tree[2 * node] == tree[1] ? 2 * node : 2 * node + 1;
  size_t symbol = (node - leaves_) * kBlock;
  while ((*ranks_)[symbol] != tree[1]) ++symbol;
  return symbol;
}

void MergeScratch::set_rank(size_t symbol, int32_t rank) {
  Buffer<int32_t>& tree = *tree_;
  const int32_t before = std::exchange((*ranks_)[symbol], rank);
  size_t node = leaves_ + symbol / kBlock;
  // Most changes leave the block's least as it is: something else in it is smaller.
  if (rank > tree[node] && before > tree[node]) return;
  int32_t least = rank <= tree[node] ? rank : block_least(symbol / kBlock);
  while (tree[node] != least) {
    tree[node] = least;
    if (node == 1) return;
    least = std::min(least, tree[node ^ 1]);
    node /= 2;
  }
}

size_t WordMerger::merge_short(uint32_t* ids, size_t count, uint32_t* lengths) const {
  check_index(count, kShort + 1);
  SymbolRun run{ids, count};
  MergingWord word;
  word.begin(merges_, run);
  while (word.choose(merges_)) word.look_up();
  word.finish(lengths);
  return run.count;
}

void WordMerger::merge_batch(std::span<SymbolRun> words) const {
  constexpr size_t kTogether = 16;
  MergingWord merging[kTogether];
  MergingWord* active[kTogether];
  size_t next = 0, count = 0;
  for (; count < kTogether && next < words.size(); ++count) {
    active[count] = merging + count;
    active[count]->begin(merges_, words[next++]);
  }
  while (count > 0) {
    for (size_t i = 0; i < count;) {
      if (active[i]->choose(merges_)) [[likely]] {
        ++i;
        continue;
      }
      active[i]->finish();
      if (next < words.size())
        active[i]->begin(merges_, words[next++]);
      else
        std::swap(active[i], active[--count]);
    }
    for (size_t i = 0; i < count; ++i) active[i]->look_up();
  }
}

size_t WordMerger::merge_long(uint32_t* ids, size_t count, uint32_t* lengths, MergeScratch& scratch) const {
  if (count == 0) return 0;
  scratch.prepare(count);
  uint32_t* const ends = scratch.ends();
  const auto slot_of = [&](size_t left, size_t right) -> const MergeTable::Slot& {
    return merges_.slot(merges_.symbol(ids[left]), merges_.symbol(ids[right]));
  };
  const auto rank_of = [&](size_t left, size_t right) {
    return std::min(kNever, slot_of(left, right).order_in(MergeTable::row_of(merges_.symbol(ids[left]))));
  };
  for (size_t i = 0; i < count; ++i) {
    ends[i] = static_cast<uint32_t>(i);
    if (i > 0) scratch.ranks()[i - 1] = rank_of(i - 1, i);
  }
  scratch.build();
  while (scratch.least() != kNever) {
    const size_t left = scratch.first_least();
    const size_t right = ends[left] + size_t{1};
    const size_t last = ends[right];
    ids[left] = MergeTable::id_of(slot_of(left, right).joined);
    ends[left] = static_cast<uint32_t>(last);
    ends[last] = static_cast<uint32_t>(left);
    scratch.set_rank(right, kNever);
    scratch.set_rank(left, last + 1 < count ? rank_of(left, last + 1) : kNever);
    if (left > 0) {
      const size_t before = ends[left - 1];
      scratch.set_rank(before, rank_of(before, left));
    }
  }
  size_t written = 0;
  for (size_t at = 0; at < count; ++written) {
    const size_t next = ends[at] + size_t{1};
    ids[written] = ids[at];
    if (lengths != nullptr) {
      uint32_t sum = 0;
      for (size_t i = at; i < next; ++i) sum += lengths[i];
      lengths[written] = sum;
    }
    at = next;
  }
  return written;
}

}  // namespace krill::bpe
