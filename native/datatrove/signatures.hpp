// MinHash signatures as datatrove makes them: simplified text, its words, the XXH64 of each run of `ngram`
// words with a space between them, and for each permutation the least number that any of them gives.
//
// A permutation is (hash * factor + addend) in 64 bits, modulo 2^61 - 1. Words are those of
// quality/words.hpp, except that scripts without spaces are not cut, as spaCy's English tokenizer doesn't cut
// them. Held in memory: the longest document, simplified, once as text and once as words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "buffer.hpp"
#include "datatrove/simplify.hpp"
#include "text/column.hpp"

namespace krill::datatrove {

struct SignatureTable {
  Buffer<uint64_t> numbers;     // one for each permutation, for each document
  Buffer<uint8_t> has_shingle;  // 0 for a document of fewer words than a shingle, whose numbers are 0
};

// The words of each document, a space between them: for tests.
struct JoinedWords {
  GrowingBuffer<uint8_t> bytes;
  Buffer<int64_t> offsets;
};

class Signer {
 public:
  static constexpr size_t kMostPermutations = 4096;
  static constexpr size_t kMostWords = 100;  // of a shingle

  // Throws std::invalid_argument for counts of 0 and above these.
  Signer(Simplifier simplifier, const uint64_t* factors, const uint64_t* addends, size_t permutations,
         size_t ngram);

  // The columns must have been checked.
  SignatureTable sign(const text::TextColumn& documents) const;
  JoinedWords words(const text::TextColumn& documents) const;

 private:
  Simplifier simplifier_;
  size_t permutations_;
  size_t ngram_;
  std::vector<uint64_t> factors_;  // one for each permutation, padded to whole lanes
  std::vector<uint64_t> addends_;
};

// The XXH64 of each document.
Buffer<uint64_t> hashes_of(const text::TextColumn& documents);

}  // namespace krill::datatrove
