// Which pairs of tokens merge, in which order, and into what.
//
// In: merges by rank, checked against the vocabulary. Out: rank and new token of a pair. Held in memory: 8
// bytes an id, and slots of 8 bytes, about as many as there are merges and tokens that are the right part of
// one.
//
// Every merge of a word waits for two look-ups, and whether a pair merges can't be predicted. So a look-up is
// one load without a branch: all pairs with the same left token are a row with a column for each right one,
// almost all of it empty, and the rows overlap in one array, shifted so that no two pairs share a slot (row
// displacement). A slot says which row it belongs to. The array of a 32,000-token vocabulary takes 320 kB,
// and tokens that merge with none, more than half of them, share a row and a column of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "bpe/vocabulary.hpp"

namespace krill::bpe {

class MergeTable {
 public:
  // Row, rank and new id share a machine word.
  static constexpr unsigned kIdBits = 20;
  static constexpr unsigned kRankBits = 20;
  static constexpr unsigned kRowBits = 24;
  static_assert(kIdBits + kRankBits + kRowBits == 64);
  static constexpr size_t kMaxIds = size_t{1} << kIdBits;
  static constexpr size_t kMaxMerges = size_t{1} << kRankBits;
  // Greater than every rank.
  static constexpr int32_t kNever = int32_t{1} << kRankBits;

  // A token's position in the table: the row of pairs that it begins, the column of pairs that it ends.
  struct Place {
    uint32_t row = 0;     // 0: not the left part of any merge
    uint32_t column = 0;  // 0: not the right part of any
  };

  struct Merge {
    int32_t rank;    // kNever if the pair doesn't merge
    uint32_t token;  // meaningless then
  };

  // `merges` holds left, right and new id of each; of a pair that occurs twice the last counts, as in Hugging
  // Face's map. Merges that don't fit the vocabulary, or need too many slots, throw std::invalid_argument.
  MergeTable(const Vocabulary& vocabulary, std::span<const uint32_t> merges);

  Place place(uint32_t id) const { return places_[id]; }
  void prefetch(uint32_t id) const { __builtin_prefetch(places_.data() + id); }

  Merge find(uint32_t row, uint32_t column) const {
    const uint64_t slot = slots_[row + column];
    const int32_t rank = static_cast<int32_t>(slot >> kIdBits & (kNever - 1));
    return {slot >> (kIdBits + kRankBits) == row ? rank : kNever,
            static_cast<uint32_t>(slot & (kMaxIds - 1))};
  }

  Merge find_pair(uint32_t left, uint32_t right) const {
    return find(places_[left].row, places_[right].column);
  }

 private:
  // No row has this number, and row 0 has no pairs.
  static constexpr uint64_t kEmpty = ~uint64_t{0};

  struct Pair {
    uint32_t left;
    uint32_t right;
    uint32_t rank;
    uint32_t token;
  };
  class Rows;

  static std::vector<Pair> checked_pairs(const Vocabulary& vocabulary, std::span<const uint32_t> merges);
  size_t number_columns(std::vector<Pair>& pairs);

  std::vector<Place> places_;
  std::vector<uint64_t> slots_;
};

}  // namespace krill::bpe
