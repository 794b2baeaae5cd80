// Sets of numbers in a file, and how much pairs of them have in common.
//
// The data file holds sets one after the other, each in rising order; the index file 16 bytes for each
// document: where its set begins, in numbers, and how many it has. Held while comparing: two buffers,
// whatever the sets' sizes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dedup/hash.hpp"

namespace krill::dedup {

struct SetFile {
  int index;  // descriptors, open for reading
  int data;
};

// For each pair of documents the share of what either has that both have, 0..1; two empty sets share all.
// Throws std::runtime_error if a file ends early or can't be read.
void jaccard(const SetFile& file, const Hash* pairs, size_t count, double* shares);

}  // namespace krill::dedup
