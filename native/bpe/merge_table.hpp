// Which pairs of tokens merge, in which order, and into what.
//
// In: merges by rank, checked against the vocabulary. Out: rank and new token of a pair. Held in memory: 8
// bytes an id, and slots of 16 bytes, about as many as there are merges and tokens that are the right part of
// one.
//
// Every merge of a word waits for two look-ups, and whether a pair merges can't be predicted. So a look-up is
// one load without a branch: all pairs with the same left token are a row with a column for each right one,
// almost all of it empty, and the rows overlap in one array, shifted so that no two pairs share a slot (row
// displacement). A slot says which row it belongs to. Tokens that merge with none, more than half of them,
// share a row and a column. A token is known as a symbol, which has its row and its column beside its id: so
// a chain of merges waits for one load each.
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
  // Id, column and row of a token, from the lowest bits.
  using Symbol = uint64_t;
  static constexpr unsigned kIdBits = 20;
  static constexpr unsigned kRowBits = 24;
  static_assert(2 * kIdBits + kRowBits == 64);
  static uint32_t id_of(Symbol symbol) { return static_cast<uint32_t>(symbol & (kMaxIds - 1)); }
  // Of the pairs that it ends; 0: of none.
  static uint32_t column_of(Symbol symbol) {
    return static_cast<uint32_t>(symbol >> kIdBits & (kMaxIds - 1));
  }
  // Of the pairs that it begins; 0: of none.
  static uint32_t row_of(Symbol symbol) { return static_cast<uint32_t>(symbol >> 2 * kIdBits); }
  // What merges with nothing.
  static constexpr Symbol kNoSymbol = 0;

  static constexpr size_t kMaxIds = size_t{1} << kIdBits;
  static constexpr size_t kMaxMerges = size_t{1} << 20;

  // Ranks as numbers to compare, with room for a place in a word in the lowest bits. The highest bit makes
  // them ordinary floating-point numbers, whose order is that of their bits: SSE2 has the lesser of four
  // floats in one instruction, but not of four integers.
  static constexpr unsigned kPlaceBits = 6;
  static constexpr int32_t kOrderBit = int32_t{1} << 30;
  // That of a pair that doesn't merge is this or more.
  static constexpr int32_t kNever = kOrderBit | int32_t{kMaxMerges} << kPlaceBits;

  struct Slot {
    uint32_t row;
    int32_t order;
    Symbol joined;

    // kNever or more if the slot belongs to a pair of another row: without a branch, which couldn't be
    // predicted. Only a difference makes high bits of what is below 0.
    int32_t order_in(uint32_t wanted) const {
      return order | (static_cast<int32_t>((uint64_t{0} - (row ^ wanted)) >> 32) & kNever);
    }
  };

  // `merges` holds left, right and new id of each; of a pair that occurs twice the last counts, as in Hugging
  // Face's map. The new token is the two parts, the right one without its first `prefix_size` bytes. Merges
  // that don't fit the vocabulary, or need too many slots, throw std::invalid_argument.
  MergeTable(const Vocabulary& vocabulary, std::span<const uint32_t> merges, size_t prefix_size = 0);

  Symbol symbol(uint32_t id) const { return symbols_[id]; }
  // The slot of a pair, if it merges.
  const Slot& slot(Symbol left, Symbol right) const {
    const size_t place = size_t{row_of(left)} + column_of(right);
    check_index(place, slots_->size());
    return first_slot_[place];
  }

  size_t bytes() const { return symbols_.size() * sizeof(Symbol) + slots_->size() * sizeof(Slot); }

 private:
  // No row has this number, and row 0 has no pairs.
  static constexpr uint32_t kEmpty = ~uint32_t{0};

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

  std::vector<Symbol> symbols_;
  std::optional<Buffer<Slot>> slots_;
  const Slot* first_slot_ = nullptr;
};

}  // namespace krill::bpe
