// Which pairs of tokens merge, in which order, and into what.
//
// In: merges by rank, checked against the vocabulary. Out: rank and new token of a pair. Held in memory: 8
// bytes an id, and slots of 16 bytes, about as many as there are merges and tokens that are the right part of
// one.
//
// Every merge of a word waits for two look-ups, and whether a pair merges can't be predicted. So a look-up is
// one load without a branch: all pairs with the same left token are a row with a column for each right one,
// almost all of it empty, and the rows overlap in one array, shifted so that no two pairs share a slot (row
// displacement). A slot says which row it belongs to, and where the new token has its own row and column, so
// that a chain of merges waits for one load each. Tokens that merge with none, more than half of them, share
// a row and a column.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bpe/vocabulary.hpp"
#include "buffer.hpp"
#include "check.hpp"

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

  struct Slot {
    uint64_t pair;  // row, rank, new id, from the highest bits
    Place place;    // of the new token

    // kNever if the slot belongs to a pair of another row.
    int32_t rank(uint32_t row) const {
      const int32_t rank = static_cast<int32_t>(pair >> kIdBits & (kNever - 1));
      return pair >> (kIdBits + kRankBits) == row ? rank : kNever;
    }
    // Meaningless if the pair doesn't merge.
    uint32_t token() const { return static_cast<uint32_t>(pair & (kMaxIds - 1)); }
  };

  struct Merge {
    int32_t rank;    // kNever if the pair doesn't merge
    uint32_t token;  // meaningless then
  };

  // `merges` holds left, right and new id of each; of a pair that occurs twice the last counts, as in Hugging
  // Face's map. The new token is the two parts, the right one without its first `prefix_size` bytes. Merges
  // that don't fit the vocabulary, or need too many slots, throw std::invalid_argument.
  MergeTable(const Vocabulary& vocabulary, std::span<const uint32_t> merges, size_t prefix_size = 0);

  Place place(uint32_t id) const { return places_[id]; }
  const Slot& slot(uint32_t row, uint32_t column) const {
    check_index(size_t{row} + column, slots_->size());
    return first_slot_[row + column];
  }

  Merge find_pair(uint32_t left, uint32_t right) const {
    const uint32_t row = places_[left].row;
    const Slot& found = slot(row, places_[right].column);
    return {found.rank(row), found.token()};
  }

  size_t bytes() const { return places_.size() * sizeof(Place) + slots_->size() * sizeof(Slot); }

 private:
  // No row has this number, and row 0 has no pairs.
  static constexpr uint64_t kEmpty = ~uint64_t{0};

  struct Pair {
    uint32_t left;
    uint32_t column;
    uint32_t rank;
    uint32_t token;
  };
  using Row = std::span<const Pair>;
  class Rows;

  size_t number_columns(std::span<const uint32_t> merges);
  std::vector<Pair> pairs_by_left(std::span<const uint32_t> merges) const;
  void fill(const std::vector<Row>& rows);

  std::vector<Place> places_;
  std::optional<Buffer<Slot>> slots_;
  const Slot* first_slot_ = nullptr;
};

}  // namespace krill::bpe
