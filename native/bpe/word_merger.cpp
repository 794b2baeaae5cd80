#include "bpe/word_merger.hpp"

#include <algorithm>
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

// A short word's pairs: rank and place in one number, so that the least is the leftmost of the lowest rank.
constexpr unsigned kPlaceBits = 5;
// This bit makes a key an ordinary floating-point number, whose order is that of its bits: SSE2 has the
// lesser of four floats in one instruction, but not of four integers.
constexpr int32_t kKeyBit = int32_t{1} << 30;
constexpr int32_t kNoPair = kKeyBit | kNever << kPlaceBits;
static_assert(MergeTable::kNever << kPlaceBits < kKeyBit / 2);
static_assert(WordMerger::kShort + 2 == size_t{1} << kPlaceBits);

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
    std::ranges::fill(keys_, kNoPair);
    alive_ = ~uint32_t{0} >> (30 - count);
    symbols_[0] = symbols_[count + 1] = MergeTable::kNoSymbol;
    for (size_t i = 0; i < count; ++i) symbols_[i + 1] = merges.symbol(word.ids[i]);
    for (uint32_t i = 1; i < count; ++i) set(i, merges.slot(symbols_[i], symbols_[i + 1]));
  }

  // False if no pair merges.
  bool choose(const MergeTable& merges) {
    const int32_t least = least_key();
    if (least >= kNoPair) return false;
    at_ = static_cast<uint32_t>(least) & ((1u << kPlaceBits) - 1);
    const uint32_t behind = ~uint32_t{1} << at_;
    const auto right = static_cast<unsigned>(std::countr_zero(alive_ & behind));
    alive_ &= ~(1u << right);
    const auto after = static_cast<unsigned>(std::countr_zero(alive_ & behind));
    before_ = static_cast<uint32_t>(31 - std::countl_zero(alive_ & ~(~0u << at_)));
    const MergeTable::Symbol joined = joined_[at_];
    symbols_[at_] = joined;
    keys_[right] = kNoPair;
    left_slot_ = &merges.slot(symbols_[before_], joined);
    right_slot_ = &merges.slot(joined, symbols_[after]);
    __builtin_prefetch(left_slot_);
    __builtin_prefetch(right_slot_);
    return true;
  }

  void look_up() {
    set(before_, *left_slot_);
    set(at_, *right_slot_);
  }

  // Writes the tokens over the symbols.
  void finish(uint32_t* lengths = nullptr) {
    size_t written = 0;
    for (uint32_t left = alive_ & (alive_ - 1); (left & (left - 1)) != 0; left &= left - 1) {
      const auto at = static_cast<size_t>(std::countr_zero(left));
      word_->ids[written] = MergeTable::id_of(symbols_[at]);
      if (lengths != nullptr) {
        uint32_t sum = 0;
        for (size_t i = at; i < static_cast<size_t>(std::countr_zero(left & (left - 1))); ++i)
          sum += lengths[i - 1];
        lengths[written] = sum;
      }
      ++written;
    }
    word_->count = written;
  }

 private:
  void set(uint32_t left, const MergeTable::Slot& slot) {
    joined_[left] = slot.joined;
    const int32_t rank = slot.rank_in(MergeTable::row_of(symbols_[left]));
    keys_[left] = kKeyBit | rank << kPlaceBits | static_cast<int32_t>(left);
  }

  int32_t least_key() const {
#if defined(__SSE2__)
    const auto* const keys = reinterpret_cast<const float*>(keys_);
    __m128 least = _mm_load_ps(keys);
    for (size_t i = 4; i < std::size(keys_); i += 4) least = _mm_min_ps(least, _mm_load_ps(keys + i));
    least = _mm_min_ps(least, _mm_shuffle_ps(least, least, _MM_SHUFFLE(1, 0, 3, 2)));
    least = _mm_min_ps(least, _mm_shuffle_ps(least, least, _MM_SHUFFLE(2, 3, 0, 1)));
    return _mm_cvtsi128_si32(_mm_castps_si128(least));
#else
    Four least;
    std::memcpy(&least, keys_, sizeof least);
    for (size_t i = 4; i < std::size(keys_); i += 4) {
      Four four;
      std::memcpy(&four, keys_ + i, sizeof four);
      least = lesser(least, four);
    }
    return least_of(least);
#endif
  }

  alignas(16) int32_t keys_[32];
  MergeTable::Symbol symbols_[32];
  MergeTable::Symbol joined_[32];  // of a symbol and the next
  uint32_t alive_;                 // one bit for each symbol, and two for the sentinels
  uint32_t at_;
  uint32_t before_;
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
  constexpr size_t kTogether = 6;
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
    return slot_of(left, right).rank_in(MergeTable::row_of(merges_.symbol(ids[left])));
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
