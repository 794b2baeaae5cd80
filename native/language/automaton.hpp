// The automaton that finds features in text: the next state of a state and a byte, and the feature of a
// state.
//
// Its rows are similar: nearly all entries of a row are those of one of a few default rows. Only the others
// are stored, in one array in which rows overlap (row displacement): each entry names the row that it belongs
// to, and where it belongs to another, the default row applies. A step is three loads, with no
// branch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "buffer.hpp"

namespace krill::language {

// As read from the model's file; borrowed while the automaton is made.
struct AutomatonRows {
  const uint32_t* defaults;   // default_count rows of 256 states
  size_t default_count;       // 256 at most
  const uint8_t* default_of;  // for each row
  const uint32_t* starts;     // row_count + 1: where a row's own entries begin
  size_t row_count;
  const uint8_t* bytes;     // of each entry, rising within a row
  const uint32_t* targets;  // of each entry
  size_t entry_count;
  const uint32_t* row_of;      // for each state
  const uint32_t* feature_of;  // for each state; feature_count = it has none
  size_t state_count;
  size_t feature_count;

  // Checks that all numbers are in range, so that `next` needs no checks. Throws std::invalid_argument.
  void check() const;
};

class FeatureAutomaton {
 public:
  explicit FeatureAutomaton(const AutomatonRows& rows);

  static constexpr uint32_t kRoot = 0;

  uint32_t next(uint32_t state, uint8_t byte) const {
    const uint32_t row = states_[state].row;
    const Entry& own = entries_[(row >> 8) + byte];
    const uint32_t common = defaults_[(row & 0xff) << 8 | byte];
    const uint32_t is_own = 0u - static_cast<uint32_t>(own.row == row);  // a mask instead of a branch
    return common ^ ((common ^ own.target) & is_own);
  }

  // Numbers from `features()` on mean that there is none. There are several of them, so that counting
  // them doesn't wait for the previous increment.
  uint32_t feature(uint32_t state) const { return states_[state].feature; }
  static constexpr size_t kNoFeatures = 16;

  size_t features() const { return features_; }
  size_t nbytes() const;

 private:
  struct State {
    uint32_t row;  // where its row begins among the entries << 8 | default row
    uint32_t feature;
  };
  struct Entry {
    uint32_t row;
    uint32_t target;
  };

  // Where each row was put among the entries, and how many of these there are.
  struct Placement {
    std::vector<uint32_t> row_at;
    size_t size;
  };

  FeatureAutomaton(const AutomatonRows& rows, const Placement& placed);
  static Placement place(const AutomatonRows& rows);

  size_t features_;
  std::vector<State> states_;
  Buffer<Entry> entries_;  // in huge pages where available: `next` waits for memory
  std::vector<uint32_t> defaults_;
};

}  // namespace krill::language
