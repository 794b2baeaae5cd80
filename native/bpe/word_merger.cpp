#include "bpe/word_merger.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace krill {

namespace {

constexpr std::int32_t kNever = MergeTable::kNever;

// Ranks are searched four at a time, and in whole blocks of sixteen.
using Four [[gnu::vector_size(16)]] = std::int32_t;
constexpr std::size_t kLanes = 16;

Four lesser(Four left, Four right) { return left < right ? left : right; }

// Without a branch: which one is the least can't be foreseen. `lanes` is a whole number of blocks.
std::int32_t least_of(const std::int32_t* values, std::size_t lanes) {
  const auto load = [&](std::size_t at) {
    Four four;
    std::memcpy(&four, values + at, sizeof four);
    return four;
  };
  Four least = load(0);
  for (std::size_t i = 0; i < lanes; i += kLanes) {
    const Four first = lesser(load(i), load(i + 4));
    const Four second = lesser(load(i + 8), load(i + 12));
    least = lesser(least, lesser(first, second));
  }
  least = lesser(least, __builtin_shuffle(least, Four{2, 3, 0, 1}));
  least = lesser(least, __builtin_shuffle(least, Four{1, 0, 3, 2}));
  return least[0];
}

// A short word's pairs: rank and place in one number, so that the least is the leftmost of the lowest rank.
constexpr unsigned kPlaceBits = 6;
constexpr std::int32_t kNoPair = kNever << kPlaceBits;
static_assert(MergeTable::kRankBits + kPlaceBits < 31);
static_assert(WordMerger::kShort + 2 == std::size_t{1} << kPlaceBits);

std::int32_t pair_key(std::int32_t rank, std::size_t place) {
  return rank << kPlaceBits | static_cast<std::int32_t>(place);
}

}  // namespace

void MergeScratch::prepare(std::size_t size) {
  const std::size_t blocks = (size + kBlock - 1) / kBlock;
  ids_.resize(size);
  ends_.resize(size);
  ranks_.assign(blocks * kBlock, kNever);
  leaves_ = std::bit_ceil(blocks);
  tree_.assign(2 * leaves_, kNever);
}

void MergeScratch::release() { *this = MergeScratch(); }

std::int32_t MergeScratch::block_least(std::size_t block) const {
  return least_of(ranks_.data() + block * kBlock, kBlock);
}

void MergeScratch::build() {
  for (std::size_t block = 0; block * kBlock < ranks_.size(); ++block) tree_[leaves_ + block] = block_least(block);
  for (std::size_t node = leaves_ - 1; node >= 1; --node)
    tree_[node] = std::min(tree_[2 * node], tree_[2 * node + 1]);
}

std::size_t MergeScratch::first_least() const {
  std::size_t node = 1;
  while (node < leaves_) node = tree_[2 * node] == tree_[1] ? 2 * node : 2 * node + 1;
  std::size_t symbol = (node - leaves_) * kBlock;
  while (ranks_[symbol] != tree_[1]) ++symbol;
  return symbol;
}

void MergeScratch::set_rank(std::size_t symbol, std::int32_t rank) {
  const std::int32_t before = std::exchange(ranks_[symbol], rank);
  std::size_t node = leaves_ + symbol / kBlock;
  // Most changes leave the block's least as it is: something else in it is smaller.
  if (rank > tree_[node] && before > tree_[node]) return;
  std::int32_t least = rank <= tree_[node] ? rank : block_least(symbol / kBlock);
  while (tree_[node] != least) {
    tree_[node] = least;
    if (node == 1) return;
    least = std::min(least, tree_[node ^ 1]);
    node /= 2;
  }
}

template <class Id>
std::size_t WordMerger::merge_short(const std::uint8_t* word, std::size_t size, Id* out) const {
  // Nobody stands before the first symbol and behind the last, so that no symbol is a special case.
  std::uint32_t ids[kShort + 2];
  std::int32_t keys[kShort + 2];
  const std::size_t lanes = (size + 2 + kLanes - 1) / kLanes * kLanes;
  std::fill_n(keys, lanes, kNoPair);
  ids[0] = MergeTable::kNobody;
  std::size_t count = 0;
  std::uint8_t before = 0;
  for (std::size_t i = 0; i < size; ++i) {
    const std::uint32_t id = vocabulary_.byte_token(word[i]);
    if (id == Vocabulary::kNoToken) [[unlikely]]
      continue;
    if (count > 0) keys[count] = pair_key(merges_.byte_rank(before, word[i]), count);
    ids[++count] = id;
    before = word[i];
  }
  ids[count + 1] = MergeTable::kNobody;
  std::uint64_t alive = ~std::uint64_t{0} >> (kShort - count);  // one bit for each symbol, and for Nobody twice
  for (;;) {
    const std::int32_t least = least_of(keys, lanes);
    if (least >= kNoPair) break;
    const unsigned at = static_cast<unsigned>(least) & ((1u << kPlaceBits) - 1);
    const std::uint64_t behind = ~std::uint64_t{1} << at;
    const int right = std::countr_zero(alive & behind);
    alive &= ~(std::uint64_t{1} << right);
    const int after = std::countr_zero(alive & behind);
    const int left = 63 - std::countl_zero(alive & ~(~std::uint64_t{0} << at));
    ids[at] = merges_.token(least >> kPlaceBits);
    keys[right] = kNoPair;
    keys[at] = pair_key(merges_.rank(ids[at], ids[after]), at);
    keys[left] = pair_key(merges_.rank(ids[left], ids[at]), static_cast<std::size_t>(left));
  }
  std::size_t written = 0;
  alive &= alive - 1;
  for (; (alive & (alive - 1)) != 0; alive &= alive - 1)
    out[written++] = static_cast<Id>(ids[std::countr_zero(alive)]);
  return written;
}

// The symbols that a long word begins as, and the ranks of their pairs.
std::size_t WordMerger::begin_long(const std::uint8_t* word, std::size_t size, MergeScratch& scratch) const {
  scratch.prepare(size);
  std::size_t count = 0;
  std::uint8_t before = 0;
  for (std::size_t i = 0; i < size; ++i) {
    const std::uint32_t id = vocabulary_.byte_token(word[i]);
    if (id == Vocabulary::kNoToken) continue;
    if (count > 0) scratch.ranks()[count - 1] = merges_.byte_rank(before, word[i]);
    scratch.ids()[count] = id;
    scratch.ends()[count] = static_cast<std::uint32_t>(count);
    ++count;
    before = word[i];
  }
  scratch.build();
  return count;
}

void WordMerger::merge_symbols(std::size_t count, MergeScratch& scratch) const {
  std::uint32_t* const ids = scratch.ids();
  std::uint32_t* const ends = scratch.ends();
  while (scratch.least() != kNever) {
    const std::size_t left = scratch.first_least();
    const std::size_t right = ends[left] + std::size_t{1};
    const std::size_t last = ends[right];
    ids[left] = merges_.token(scratch.least());
    ends[left] = static_cast<std::uint32_t>(last);
    ends[last] = static_cast<std::uint32_t>(left);
    scratch.set_rank(right, kNever);
    scratch.set_rank(left, last + 1 < count ? merges_.rank(ids[left], ids[last + 1]) : kNever);
    if (left > 0) {
      const std::size_t before = ends[left - 1];
      scratch.set_rank(before, merges_.rank(ids[before], ids[left]));
    }
  }
}

template <class Id>
std::size_t WordMerger::merge_long(const std::uint8_t* word, std::size_t size, Id* out,
                                   MergeScratch& scratch) const {
  const std::size_t count = begin_long(word, size, scratch);
  merge_symbols(count, scratch);
  std::size_t written = 0;
  for (std::size_t at = 0; at < count; at = scratch.ends()[at] + std::size_t{1})
    out[written++] = static_cast<Id>(scratch.ids()[at]);
  return written;
}

template std::size_t WordMerger::merge_short(const std::uint8_t*, std::size_t, std::uint16_t*) const;
template std::size_t WordMerger::merge_short(const std::uint8_t*, std::size_t, std::uint32_t*) const;
template std::size_t WordMerger::merge_long(const std::uint8_t*, std::size_t, std::uint16_t*, MergeScratch&) const;
template std::size_t WordMerger::merge_long(const std::uint8_t*, std::size_t, std::uint32_t*, MergeScratch&) const;

}  // namespace krill
