#include "bpe/vocabulary_merges.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <tuple>

namespace krill::bpe {

namespace {

bool joins(const Vocabulary& vocabulary, uint32_t left, uint32_t right, uint32_t joined) {
  const auto first = vocabulary.bytes(left);
  const auto second = vocabulary.bytes(right);
  const auto whole = vocabulary.bytes(joined);
  return whole.size() == first.size() + second.size() &&
         std::ranges::equal(first, whole.first(first.size())) &&
         std::ranges::equal(second, whole.last(second.size()));
}

}  // namespace

// Finds a position for one row after the other. Sixty-four positions are tried at once.
class MergeTable::Rows {
 public:
  // The first position, from 1 on, that no other row has and where none of the row's columns is taken; marks
  // them as taken.
  size_t place(std::span<const Pair> row) {
    for (size_t begin = 1;; begin += 64) {
      uint64_t free = ~word_at(begins_, begin);
      for (auto pair = row.begin(); pair != row.end() && free != 0; ++pair)
        free &= ~word_at(taken_, begin + pair->right);
      if (free == 0) continue;
      begin += static_cast<size_t>(std::countr_zero(free));
      set(begins_, begin);
      for (const Pair& pair : row) set(taken_, begin + pair.right);
      return begin;
    }
  }

 private:
  using Bits = std::vector<uint64_t>;

  static uint64_t word_at(const Bits& bits, size_t place) {
    const size_t word = place / 64, shift = place % 64;
    const uint64_t low = word < bits.size() ? bits[word] >> shift : 0;
    const uint64_t high = shift != 0 && word + 1 < bits.size() ? bits[word + 1] << (64 - shift) : 0;
    return low | high;
  }
  static void set(Bits& bits, size_t place) {
    if (bits.size() <= place / 64) bits.resize(place / 64 + 1, 0);
    bits[place / 64] |= uint64_t{1} << place % 64;
  }

  Bits begins_;
  Bits taken_;
};

MergeTable::MergeTable(const Vocabulary& vocabulary, std::span<const uint32_t> merges)
    : places_(vocabulary.size()) {
  std::vector<Pair> pairs = checked_pairs(vocabulary, merges);
  const size_t columns = number_columns(pairs);
  std::vector<std::span<const Pair>> rows;
  for (auto begin = pairs.begin(); begin != pairs.end();) {
    const auto end =
        std::find_if(begin, pairs.end(), [&](const Pair& pair) { return pair.left != begin->left; });
    rows.emplace_back(begin, end);
    begin = end;
  }
  // The longest first, while there is room for them.
  std::ranges::stable_sort(rows, std::ranges::greater{}, [](const auto& row) { return row.size(); });
  Rows placed;
  for (const auto& row : rows) {
    const size_t begin = placed.place(row);
    if (begin >= size_t{1} << kRowBits) throw std::invalid_argument("the merges are too many");
    places_[row.front().left].row = static_cast<uint32_t>(begin);
    // So that every column of every row can be read.
    if (slots_.size() < begin + columns) slots_.resize(begin + columns, kEmpty);
    for (const Pair& pair : row)
      slots_[begin + pair.right] = (uint64_t{begin} << kRankBits | pair.rank) << kIdBits | pair.token;
  }
  slots_.resize(std::max(slots_.size(), columns), kEmpty);
}

// Ordered by left and right id, each pair once.
std::vector<MergeTable::Pair> MergeTable::checked_pairs(const Vocabulary& vocabulary,
                                                        std::span<const uint32_t> merges) {
  if (merges.size() % 3 != 0) throw std::invalid_argument("a merge has three ids");
  const size_t count = merges.size() / 3;
  if (vocabulary.size() > kMaxIds || count > kMaxMerges)
    throw std::invalid_argument("the vocabulary or its merges are too many");
  std::vector<Pair> pairs;
  pairs.reserve(count);
  for (size_t rank = count; rank-- > 0;) {  // from the back, so that the last of equal ones comes first
    const uint32_t left = merges[3 * rank], right = merges[3 * rank + 1], joined = merges[3 * rank + 2];
    for (const uint32_t id : {left, right, joined})
      if (!vocabulary.has(id, kWord)) throw std::invalid_argument("a merge names an id that is not a word's");
    if (!joins(vocabulary, left, right, joined))
      throw std::invalid_argument("a merge makes a token that is not its two parts");
    pairs.push_back({left, right, static_cast<uint32_t>(rank), joined});
  }
  const auto ids = [](const Pair& pair) { return std::tie(pair.left, pair.right); };
  std::ranges::stable_sort(pairs, {}, ids);
  const auto repeated = std::ranges::unique(pairs, {}, ids);
  pairs.erase(repeated.begin(), repeated.end());
  return pairs;
}

// Columns for right tokens only, in the order of ids: the frequent ones lie close together. Returns how many
// there are, and puts them in the place of right ids.
size_t MergeTable::number_columns(std::vector<Pair>& pairs) {
  for (const Pair& pair : pairs) places_[pair.right].column = 1;
  uint32_t columns = 1;
  for (Place& place : places_)
    if (place.column != 0) place.column = columns++;
  for (Pair& pair : pairs) pair.right = places_[pair.right].column;
  return columns;
}

}  // namespace krill::bpe
