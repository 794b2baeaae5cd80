#include "bpe/word_merger.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

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
constexpr int32_t kNoPair = kNever << kPlaceBits;
static_assert(MergeTable::kRankBits + kPlaceBits < 31);
static_assert(WordMerger::kShort + 2 == size_t{1} << kPlaceBits);

// They stay in registers: written to memory one by one and read back four at a time, every search would wait
// for the writes before it, which took as long as all the rest.
template <size_t kVectors>
class PairKeys {
 public:
  PairKeys() { std::ranges::fill(vectors_, Four{kNoPair, kNoPair, kNoPair, kNoPair}); }

  void set(size_t place, int32_t key) {
    const int32_t wanted = static_cast<int32_t>(place);
    for (size_t i = 0; i < kVectors; ++i) {
      const int32_t first = static_cast<int32_t>(4 * i);
      const Four mask = Four{first, first + 1, first + 2, first + 3} == Four{wanted, wanted, wanted, wanted};
      vectors_[i] = (vectors_[i] & ~mask) | (Four{key, key, key, key} & mask);
    }
  }

  int32_t least() const {
    Four least = vectors_[0];
    for (size_t i = 1; i < kVectors; ++i) least = lesser(least, vectors_[i]);
    return least_of(least);
  }

 private:
  Four vectors_[kVectors];
};

// A word of up to 4 * kVectors - 2 bytes while it is merged. Sentinels before the first symbol and after
// the last make that no symbol is a special case.
template <size_t kVectors>
class ShortWord {
 public:
  ShortWord(const Vocabulary& vocabulary, const MergeTable& merges, const uint8_t* word, size_t size)
      : merges_(merges) {
    places_[0] = {};
    size_t count = 0;
    for (size_t i = 0; i < size; ++i) {
      const uint32_t id = vocabulary.byte_token(word[i]);
      if (id == Vocabulary::kNoToken) [[unlikely]]
        continue;
      set(++count, id);
      keys_.set(count - 1, key_of(count - 1, count));
    }
    places_[count + 1] = {};
    alive_ = ~uint32_t{0} >> (30 - count);
  }

  void merge() {
    for (int32_t least = keys_.least(); least < kNoPair; least = keys_.least()) {
      const unsigned at = static_cast<unsigned>(least) & ((1u << kPlaceBits) - 1);
      const uint32_t behind = ~uint32_t{1} << at;
      const auto right = static_cast<unsigned>(std::countr_zero(alive_ & behind));
      alive_ &= ~(1u << right);
      const auto after = static_cast<unsigned>(std::countr_zero(alive_ & behind));
      const auto before = static_cast<unsigned>(31 - std::countl_zero(alive_ & ~(~0u << at)));
      set(at, joined_[at]);
      keys_.set(right, kNoPair);
      keys_.set(at, key_of(at, after));
      keys_.set(before, key_of(before, at));
    }
  }

  template <class Id>
  size_t write(Id* out) const {
    size_t written = 0;
    uint32_t left = alive_ & (alive_ - 1);
    for (; (left & (left - 1)) != 0; left &= left - 1)
      out[written++] = static_cast<Id>(ids_[std::countr_zero(left)]);
    return written;
  }

 private:
  void set(size_t at, uint32_t id) {
    ids_[at] = id;
    places_[at] = merges_.place(id);
  }
  int32_t key_of(size_t left, size_t right) {
    const MergeTable::Merge merge = merges_.find(places_[left].row, places_[right].column);
    joined_[left] = merge.token;
    merges_.prefetch(merge.token);
    return merge.rank << kPlaceBits | static_cast<int32_t>(left);
  }

  const MergeTable& merges_;
  uint32_t alive_;  // one bit for each symbol, and two for the sentinels
  uint32_t ids_[4 * kVectors];
  uint32_t joined_[4 * kVectors];  // the token of a symbol and the next
  MergeTable::Place places_[4 * kVectors];
  PairKeys<kVectors> keys_;
};

template <size_t kVectors, class Id>
size_t merge_within(const Vocabulary& vocabulary, const MergeTable& merges, const uint8_t* word, size_t size,
                    Id* out) {
  ShortWord<kVectors> symbols(vocabulary, merges, word, size);
  symbols.merge();
  return symbols.write(out);
}

template <class T>
T* make_room(std::optional<Buffer<T>>& buffer, size_t size) {
  if (!buffer || buffer->size() < size) buffer.emplace(size);
  return buffer->data();
}

}  // namespace

void MergeScratch::prepare(size_t size) {
  blocks_ = (size + kBlock - 1) / kBlock;
  leaves_ = std::bit_ceil(blocks_);
  make_room(ids_, size);
  make_room(ends_, size);
  std::fill_n(make_room(ranks_, blocks_ * kBlock), blocks_ * kBlock, kNever);
  std::fill_n(make_room(tree_, 2 * leaves_), 2 * leaves_, kNever);
}

void MergeScratch::release() {
  ids_.reset();
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

template <class Id>
size_t WordMerger::merge_short(const uint8_t* word, size_t size, Id* out) const {
  // Most words are of the shorter kind, whose keys take four registers.
  if (size <= 14) return merge_within<4>(vocabulary_, merges_, word, size, out);
  return merge_within<8>(vocabulary_, merges_, word, size, out);
}

// The symbols that a long word begins as, and the ranks of their pairs.
size_t WordMerger::begin_long(const uint8_t* word, size_t size, MergeScratch& scratch) const {
  scratch.prepare(size);
  size_t count = 0;
  for (size_t i = 0; i < size; ++i) {
    const uint32_t id = vocabulary_.byte_token(word[i]);
    if (id == Vocabulary::kNoToken) continue;
    if (count > 0) scratch.ranks()[count - 1] = merges_.find_pair(scratch.ids()[count - 1], id).rank;
    scratch.ids()[count] = id;
    scratch.ends()[count] = static_cast<uint32_t>(count);
    ++count;
  }
  scratch.build();
  return count;
}

void WordMerger::merge_symbols(size_t count, MergeScratch& scratch) const {
  uint32_t* const ids = scratch.ids();
  uint32_t* const ends = scratch.ends();
  while (scratch.least() != kNever) {
    const size_t left = scratch.first_least();
    const size_t right = ends[left] + size_t{1};
    const size_t last = ends[right];
    ids[left] = merges_.find_pair(ids[left], ids[right]).token;
    ends[left] = static_cast<uint32_t>(last);
    ends[last] = static_cast<uint32_t>(left);
    scratch.set_rank(right, kNever);
    scratch.set_rank(left, last + 1 < count ? merges_.find_pair(ids[left], ids[last + 1]).rank : kNever);
    if (left > 0) {
      const size_t before = ends[left - 1];
      scratch.set_rank(before, merges_.find_pair(ids[before], ids[left]).rank);
    }
  }
}

template <class Id>
size_t WordMerger::merge_long(const uint8_t* word, size_t size, Id* out, MergeScratch& scratch) const {
  const size_t count = begin_long(word, size, scratch);
  merge_symbols(count, scratch);
  size_t written = 0;
  for (size_t at = 0; at < count; at = scratch.ends()[at] + size_t{1})
    out[written++] = static_cast<Id>(scratch.ids()[at]);
  return written;
}

template size_t WordMerger::merge_short(const uint8_t*, size_t, uint16_t*) const;
template size_t WordMerger::merge_short(const uint8_t*, size_t, uint32_t*) const;
template size_t WordMerger::merge_long(const uint8_t*, size_t, uint16_t*, MergeScratch&) const;
template size_t WordMerger::merge_long(const uint8_t*, size_t, uint32_t*, MergeScratch&) const;

}  // namespace krill::bpe
