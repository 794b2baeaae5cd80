// MinHash: documents that share many shingles agree in some of a few numbers.
//
// A permutation of all shingles is a pair of odd factors: the two halves of a shingle's hash, each times its
// factor, added in 32 bits. A document's number for it is the least that any of its shingles gives; two
// documents agree in it with the probability that a shingle of either is one of both (Jaccard). `rows` of
// them make a band, and a band is hashed to 64 bits, with its own number, so that documents agree in a band
// only if they agree in all its rows.
//
// Least numbers are kept as shingles stream by: a document of any length takes the same memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "buffer.hpp"
#include "text/column.hpp"

namespace krill::dedup {

class MinHasher {
 public:
  static constexpr size_t kMostPermutations = 4096;

  // Throws std::invalid_argument for counts of 0, above kMostPermutations together, or an invalid
  // `ngram`.
  MinHasher(size_t bands, size_t rows, size_t ngram);

  // `bands` numbers for each document. The column must have been checked.
  Buffer<uint64_t> bands_of(const text::TextColumn& documents) const;

 private:
  size_t bands_;
  size_t rows_;
  size_t ngram_;
  std::vector<uint32_t> low_factors_;  // one for each permutation, padded to a whole vector
  std::vector<uint32_t> high_factors_;
};

// The distinct shingles of each document in rising order, and where each document's begin (rows + 1 numbers).
struct ShingleSets {
  Buffer<uint64_t> shingles;
  Buffer<int64_t> offsets;
};
ShingleSets shingle_sets(const text::TextColumn& documents, size_t ngram);

// The words that shingles are made of, as UTF-8 with a space between them: for tests.
struct FoldedText {
  Buffer<uint8_t> bytes;
  Buffer<int64_t> offsets;
};
FoldedText folded_text(const text::TextColumn& documents);

}  // namespace krill::dedup
