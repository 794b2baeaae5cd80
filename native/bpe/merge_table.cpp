#include "bpe/merge_table.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>

namespace krill::bpe {

namespace {

bool joins(const Vocabulary& vocabulary, uint32_t left, uint32_t right, uint32_t joined, size_t prefix_size) {
  const auto first = vocabulary.bytes(left);
  const auto second = vocabulary.bytes(right);
  const auto whole = vocabulary.bytes(joined);
  // A right part that is the prefix alone would add nothing, and the order of merges would depend on it.
  if (second.size() <= prefix_size) return false;
  return whole.size() == first.size() + second.size() - prefix_size &&
         std::ranges::equal(first, whole.first(first.size())) &&
         std::ranges::equal(second.subspan(prefix_size), whole.subspan(first.size()));
}

void check_merges(const Vocabulary& vocabulary, std::span<const uint32_t> merges, size_t prefix_size) {
  if (merges.size() % 3 != 0) throw std::invalid_argument("a merge has three ids");
  if (vocabulary.size() > MergeTable::kMaxIds || merges.size() / 3 > MergeTable::kMaxMerges)
    throw std::invalid_argument("the vocabulary or its merges are too many");
  for (size_t at = 0; at < merges.size(); at += 3) {
    for (size_t part = 0; part < 3; ++part)
      if (!vocabulary.has(merges[at + part], kWord))
        throw std::invalid_argument("a merge names an id that is not a word's");
    if (!joins(vocabulary, merges[at], merges[at + 1], merges[at + 2], prefix_size))
      throw std::invalid_argument("a merge makes a token that is not its two parts");
  }
}

}  // namespace

// Finds a position for one row after the other. Sixty-four positions are tried at once.
//
// Rows come with the longest first, so what is full stays full: those of about a length begin to search where
// the last of that length found room, and the first of a length where the first free slot is. That keeps the
// search near-linear, and leaves a few slots empty that a search from the front would find.
class MergeTable::Rows {
 public:
  // A position, from 1 on, that no other row has and where none of the row's columns is taken; marks them as
  // taken. The row's columns ascend.
  size_t place(Row row) {
    // The leading four bits.
    const auto bits = static_cast<unsigned>(std::bit_width(row.size()));
    const size_t length = bits <= 4 ? row.size() : row.size() >> (bits - 4) << (bits - 4);
    if (length != length_) {
      length_ = length;
      while (first_free_ / 64 < taken_.size() && taken_[first_free_ / 64] == ~uint64_t{0}) first_free_ += 64;
      from_ = first_free_;
    }
    const size_t first_column = row.front().column;
    for (size_t begin = from_ > first_column ? from_ - first_column : 1;; begin += 64) {
      uint64_t free = ~word_at(begins_, begin);
      for (auto pair = row.begin(); pair != row.end() && free != 0; ++pair)
        free &= ~word_at(taken_, begin + pair->column);
      if (free == 0) continue;
      begin += static_cast<size_t>(std::countr_zero(free));
      set(begins_, begin);
      for (const Pair& pair : row) set(taken_, begin + pair.column);
      from_ = std::max(from_, begin + first_column);
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
  size_t length_ = 0;      // or about it, for long rows
  size_t first_free_ = 0;  // a multiple of 64: slots before it are taken
  size_t from_ = 0;        // where the first column of a row is tried first
};

MergeTable::MergeTable(const Vocabulary& vocabulary, std::span<const uint32_t> merges, size_t prefix_size)
    : symbols_(vocabulary.size()) {
  check_merges(vocabulary, merges, prefix_size);
  for (size_t id = 0; id < symbols_.size(); ++id) symbols_[id] = id;
  const size_t columns = number_columns(merges);
  const std::vector<Pair> pairs = pairs_by_left(merges);
  std::vector<Row> rows;
  for (size_t begin = 0, end = 0; begin < pairs.size(); begin = end) {
    while (end < pairs.size() && pairs[end].left == pairs[begin].left) ++end;
    rows.emplace_back(pairs.data() + begin, end - begin);
  }
  // The longest first, while there is room for them.
  std::ranges::stable_sort(rows, std::ranges::greater{}, [](const Row& row) { return row.size(); });
  size_t last = 0;
  Rows placed;
  for (const Row& row : rows) {
    const size_t begin = placed.place(row);
    if (begin >= size_t{1} << kRowBits) throw std::invalid_argument("the merges are too many");
    symbols_[row.front().left] |= uint64_t{begin} << 2 * kIdBits;
    last = std::max(last, begin);
  }
  // So that every column of every row can be read.
  slots_.emplace(last + columns);
  std::fill_n(slots_->data(), slots_->size(), Slot{kEmpty, kNever, kNoSymbol});
  fill(rows);
  first_slot_ = slots_->data();
}

void MergeTable::fill(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    const uint32_t begin = row_of(symbols_[row.front().left]);
    for (const Pair& pair : row)
      (*slots_)[begin + pair.column] = {begin, kOrderBit | static_cast<int32_t>(pair.rank << kPlaceBits),
                                        symbols_[pair.token]};
  }
}

// Columns for right tokens only. Those of many merges come first: rows of many pairs are short then, and
// what is looked up most lies together. Returns how many columns there are, the one of no token included.
size_t MergeTable::number_columns(std::span<const uint32_t> merges) {
  std::vector<uint32_t> uses(symbols_.size());
  for (size_t at = 0; at < merges.size(); at += 3) ++uses[merges[at + 1]];
  std::vector<uint32_t> rights;
  for (uint32_t id = 0; id < uses.size(); ++id)
    if (uses[id] != 0) rights.push_back(id);
  std::ranges::stable_sort(rights, std::ranges::greater{}, [&](uint32_t id) { return uses[id]; });
  uint32_t columns = 1;
  for (const uint32_t id : rights) symbols_[id] |= uint64_t{columns++} << kIdBits;
  return columns;
}

// Ordered by left id and column, each pair once: the last of equal ones.
std::vector<MergeTable::Pair> MergeTable::pairs_by_left(std::span<const uint32_t> merges) const {
  std::vector<uint32_t> ends(symbols_.size() + 1);
  for (size_t at = 0; at < merges.size(); at += 3) ++ends[merges[at] + 1];
  for (size_t id = 1; id < ends.size(); ++id) ends[id] += ends[id - 1];
  std::vector<Pair> pairs(merges.size() / 3);
  for (size_t rank = 0; rank < pairs.size(); ++rank) {
    const uint32_t left = merges[3 * rank];
    pairs[ends[left]++] = {left, column_of(symbols_[merges[3 * rank + 1]]), static_cast<uint32_t>(rank),
                           merges[3 * rank + 2]};
  }
  size_t kept = 0;
  for (size_t id = 0, begin = 0; id < symbols_.size(); begin = ends[id++]) {
    const auto row = std::span(pairs).subspan(begin, ends[id] - begin);
    std::ranges::sort(row, [](const Pair& a, const Pair& b) {
      return a.column != b.column ? a.column < b.column : a.rank > b.rank;
    });
    for (size_t i = 0; i < row.size(); ++i)
      if (i == 0 || row[i].column != row[i - 1].column) pairs[kept++] = row[i];
  }
  pairs.resize(kept);
  return pairs;
}

}  // namespace krill::bpe
