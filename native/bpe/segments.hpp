// Sorted segments of a spill file merged into one sequence of words, each with the sum of its counts.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "bpe/counter.hpp"

namespace krill::bpe {

// All records of `segments`, by hash and word, to `sink`. A segment holds one word of any length, or words of
// 64 KiB at most. More segments than can be open at once in `cap_bytes` are first merged into longer ones,
// appended at `end`; returns where the file ends then.
uint64_t merge_segments(File& file, const std::vector<Segment>& segments, uint64_t end, size_t cap_bytes,
                        const std::function<void(const Record&)>& sink);

}  // namespace krill::bpe
