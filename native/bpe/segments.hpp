// Sorted segments of a spill file merged into one run of words, each with the sum of its counts.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "bpe/counter.hpp"

namespace krill {

// All records of `segments`, by hash and word, to `sink`. More segments than can be open at once are first
// merged into longer ones, appended at `end`; returns where the file ends then.
std::uint64_t merge_segments(File& file, std::vector<Segment> segments, std::uint64_t end, std::size_t cap_bytes,
                             const std::function<void(const Record&)>& sink);

}  // namespace krill
