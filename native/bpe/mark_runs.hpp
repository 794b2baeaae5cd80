// Which runs of U+2581 keep apart from the text behind them, as indentation does in many vocabularies.
//
// In: the merges, once. Out: a bit for each length of a run. Held in memory: nothing.
//
// A merge joins a run with what follows only through the run's last token. So where all merges within runs
// come before those that join U+2581 with something else, no longer run of it takes part in the latter, and a
// run on its own doesn't end in a single U+2581, the run is merged as if it stood alone. That holds if
// nothing before the run joins it either.
#pragma once

#include <cstdint>
#include <span>

#include "bpe/vocabulary.hpp"

namespace krill::bpe {

// Bit n for a run of n; of 64 or more nothing is known. `merges` holds left, right and new id of each.
uint64_t separate_mark_runs(const Vocabulary& vocabulary, std::span<const uint32_t> merges);

}  // namespace krill::bpe
