// Sets of numbers in a file, and the Jaccard similarity of pairs of them.
//
// The data file holds sets one after the other, each in rising order; the index file 16 bytes for each
// document: where its set begins, in numbers, and how many it has. Held in memory: two buffers, for sets
// of any size.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dedup/hash.hpp"

namespace krill::dedup {

struct SetFile {
  int index;  // descriptors, open for reading
  int data;
};

// The Jaccard similarity of each pair of documents, 0..1; of two empty sets it is 1.
// Throws std::runtime_error if a file ends early or can't be read.
void jaccard(const SetFile& file, const Hash* pairs, size_t count, double* shares);

}  // namespace krill::dedup
