// Cuts that a few characters around them decide, in sixty-four places at once: what fused splits do between
// ASCII characters, without going through their states one after the other.
//
// A class is a set of states in which the splits may be; a place has the class that the last characters
// before it leave open, whatever stood before these. Where all states of a class cut before a character that
// is followed by a certain other one, or none does, that is known. The rest is left to the automata: ends of
// texts, what is not ASCII, decisions that hang on what is further away. One of those is made here, too,
// since source code is full of them: that on a run of one symbol, by what follows the run.
//
// In: tables of automata; then text. Out: where pieces end. Held in memory: 12 KB at most.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "regex/symbols.hpp"

namespace krill::regex {

// What there is to know of splits whose outer ones say at once where they cut. Rows are multiples of strides.
struct SplitTables {
  const Symbols& symbols;
  const std::vector<uint32_t>& outer;  // by row and symbol: the next row << 1 | whether there is a cut before
  size_t outer_stride;
  const std::vector<uint32_t>& steps;  // of the last one: the next row << 1 | whether a match ends before
  size_t stride;
  uint32_t start;                            // the row with which the last one begins
  const std::vector<bool>& sure;             // by its state: whether a match ends after it, whatever follows
  const std::vector<uint8_t>& last_symbols;  // by symbol, that of the last one; also of the end
};

class LocalCuts {
 public:
  // Nothing where this machine has no instructions for it or the tables are too large.
  static std::optional<LocalCuts> build(const SplitTables& tables);
  static bool is_supported();

  // Room that `find` needs.
  static constexpr size_t kRoom = 64;

  // Writes the ends of pieces from `from` on, where one begins, as far as they are known, and returns how
  // many. `outer` is the row of the outer ones at the last end. `is_hard` tells that what follows had better
  // be left to the automata for a while.
  size_t find(const uint8_t* text, size_t size, size_t from, uint32_t* ends, size_t capacity, uint32_t& outer,
              bool& is_hard) const;

  size_t bytes() const { return sizeof(*this) + runs_.size(); }

 private:
  class Builder;

  enum class Outcome : uint8_t { impossible, none, cut, open };

  static constexpr size_t kEntries = 512;  // by class and symbol
  static constexpr uint8_t kAll = 0;       // the class of all states
  static constexpr uint32_t kManyRows = UINT32_MAX;

  LocalCuts() = default;

  // The number of a class is where its entries begin, the highest bit of nine in the place of the lowest,
  // where the symbol's are.
  static uint8_t class_at(size_t entry) { return static_cast<uint8_t>(entry | entry >> 8); }
  static size_t entry_of(uint8_t number) { return (number & 0xfeu) | (number & 1u) << 8; }

  uint8_t class_before(const uint8_t* text, size_t from, size_t place, size_t characters) const;
  Outcome look_further(const uint8_t* text, size_t from, size_t place, uint64_t repeated) const;
  unsigned decide(const uint8_t* text, size_t from, size_t block, uint64_t repeated, uint64_t unknown,
                  uint64_t& cuts) const;

  unsigned symbol_bits_ = 0;
  std::array<uint8_t, 128> symbols_{};
  uint8_t begin_ = 0;                        // the class where a piece begins
  std::array<uint8_t, kEntries> classes_{};  // the class after the symbol
  // The kinds of next symbols with which there is a cut before the symbol, or it is not known, a bit each.
  std::array<uint8_t, kEntries> cuts_{}, open_{};
  std::array<uint8_t, 16> kinds_{};       // by symbol
  std::vector<Outcome> runs_;             // by class, symbol that is repeated, and what follows then
  std::array<uint32_t, 256> outer_of_{};  // by class: the row of the outer ones, if it is one
};

}  // namespace krill::regex
