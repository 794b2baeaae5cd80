#include "datatrove/signatures.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "datatrove/xxh64.hpp"
#include "processor.hpp"
#include "quality/words.hpp"

namespace krill::datatrove {
namespace {

using Text = Simplifier::Text;

// Permutations that are worked on together; their numbers stay in registers while shingles pass.
constexpr size_t kLanes = 8;
// Shingles gathered before the permutations see them: 2 KB, which stay in the nearest cache.
constexpr size_t kBatch = 256;
constexpr int64_t kPrime = (int64_t{1} << 61) - 1;
constexpr unsigned kPrimeBits = 61;

struct Batch {
  std::array<uint64_t, kBatch> hashes;
  size_t size = 0;
};

// Vectors of `kVector` bytes. Remainders are below 2^61, so that they can be compared as signed numbers,
// which is what processors have.
template <size_t kVector>
[[gnu::always_inline]] inline void fold_lanes(const Batch& batch, const uint64_t* factors,
                                              const uint64_t* addends, uint64_t* least) {
  typedef uint64_t Vector __attribute__((vector_size(kVector), aligned(8), may_alias));
  typedef int64_t Signed __attribute__((vector_size(kVector), aligned(8), may_alias));
  constexpr size_t kVectors = kLanes * sizeof(uint64_t) / kVector;
  Signed minimum[kVectors];
  Vector factor[kVectors];
  Vector addend[kVectors];
  for (size_t v = 0; v < kVectors; ++v) {
    minimum[v] = reinterpret_cast<const Signed*>(least)[v];
    factor[v] = reinterpret_cast<const Vector*>(factors)[v];
    addend[v] = reinterpret_cast<const Vector*>(addends)[v];
  }
  for (size_t i = 0; i < batch.size; ++i) {
    for (size_t v = 0; v < kVectors; ++v) {
      const Vector permuted = factor[v] * batch.hashes[i] + addend[v];
      Signed rest =
          reinterpret_cast<Signed>((permuted & static_cast<uint64_t>(kPrime)) + (permuted >> kPrimeBits));
      rest = rest >= kPrime ? rest - kPrime : rest;
      minimum[v] = rest < minimum[v] ? rest : minimum[v];
    }
  }
  for (size_t v = 0; v < kVectors; ++v) reinterpret_cast<Signed*>(least)[v] = minimum[v];
}

using FoldBatch = void (*)(const Batch&, const uint64_t*, const uint64_t*, uint64_t*, size_t);

void fold_batch(const Batch& batch, const uint64_t* factors, const uint64_t* addends, uint64_t* least,
                size_t size) {
  for (size_t at = 0; at < size; at += kLanes) fold_lanes<16>(batch, factors + at, addends + at, least + at);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void fold_batch_avx2(const Batch& batch, const uint64_t* factors,
                                                     const uint64_t* addends, uint64_t* least, size_t size) {
  for (size_t at = 0; at < size; at += kLanes) fold_lanes<32>(batch, factors + at, addends + at, least + at);
}
#endif

FoldBatch best_fold_batch() {
#if defined(__x86_64__)
  if (Processor::of_this_machine().avx2) return fold_batch_avx2;
#endif
  return fold_batch;
}

// The least number of each permutation over one document's shingles.
class Signature {
 public:
  Signature(const uint64_t* factors, const uint64_t* addends, size_t permutations)
      : factors_(factors), addends_(addends), least_(permutations) {}

  void begin() {
    std::fill(least_.begin(), least_.end(), static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
    any_ = false;
  }

  void shingle(uint64_t hash) {
    any_ = true;
    batch_.hashes[batch_.size] = hash;
    if (++batch_.size == kBatch) fold();
  }

  // Null if there was no shingle.
  const uint64_t* end() {
    fold();
    return any_ ? least_.data() : nullptr;
  }

 private:
  void fold() {
    fold_batch_(batch_, factors_, addends_, least_.data(), least_.size());
    batch_.size = 0;
  }

  const uint64_t* factors_;
  const uint64_t* addends_;
  FoldBatch fold_batch_ = best_fold_batch();
  std::vector<uint64_t> least_;
  Batch batch_;
  bool any_ = false;
};

// Appends a document's words to `joined`, with a space between them, and calls `word(begin)` after each,
// where `begin` is its offset there.
template <class Word>
void join_words(const Text& simplified, Text& joined, Word word) {
  if (simplified.size() > std::numeric_limits<uint32_t>::max())
    throw std::invalid_argument("a document is too long");
  const size_t first = joined.size();
  quality::split_whole_words(simplified.data(), simplified.size(), [&](quality::Span span) {
    if (joined.size() != first) joined.push_back(' ');
    const size_t begin = joined.size();
    joined.append(simplified.data() + span.begin, span.size);
    word(begin);
  });
}

}  // namespace

Signer::Signer(Simplifier simplifier, const uint64_t* factors, const uint64_t* addends, size_t permutations,
               size_t ngram)
    : simplifier_(std::move(simplifier)), permutations_(permutations), ngram_(ngram) {
  if (permutations == 0 || permutations > kMostPermutations)
    throw std::invalid_argument("there are 1 to 4096 permutations");
  if (ngram == 0 || ngram > kMostWords) throw std::invalid_argument("a shingle has 1 to 100 words");
  factors_.assign(factors, factors + permutations);
  addends_.assign(addends, addends + permutations);
  factors_.resize((permutations + kLanes - 1) / kLanes * kLanes);
  addends_.resize(factors_.size());
}

SignatureTable Signer::sign(const text::TextColumn& documents) const {
  SignatureTable table{Buffer<uint64_t>::zeros(documents.rows * permutations_),
                       Buffer<uint8_t>(documents.rows)};
  Signature signature(factors_.data(), addends_.data(), factors_.size());
  std::array<size_t, kMostWords> begins;  // of the last words
  Text simplified;
  Text joined;
  for (size_t row = 0; row < documents.rows; ++row) {
    simplifier_.simplify(documents.begin(row), documents.size(row), simplified);
    joined.truncate(0);
    signature.begin();
    size_t words = 0;
    join_words(simplified, joined, [&](size_t begin) {
      begins[words++ % ngram_] = begin;
      if (words < ngram_) return;
      const size_t oldest = begins[words % ngram_];
      signature.shingle(xxh64(joined.data() + oldest, joined.size() - oldest));
    });
    const uint64_t* least = signature.end();
    table.has_shingle[row] = least != nullptr;
    if (least != nullptr)
      std::memcpy(&table.numbers[row * permutations_], least, permutations_ * sizeof(uint64_t));
  }
  return table;
}

JoinedWords Signer::words(const text::TextColumn& documents) const {
  JoinedWords result{{}, Buffer<int64_t>(documents.rows + 1)};
  Text simplified;
  result.offsets[0] = 0;
  for (size_t row = 0; row < documents.rows; ++row) {
    simplifier_.simplify(documents.begin(row), documents.size(row), simplified);
    join_words(simplified, result.bytes, [](size_t) {});
    result.offsets[row + 1] = static_cast<int64_t>(result.bytes.size());
  }
  return result;
}

Buffer<uint64_t> hashes_of(const text::TextColumn& documents) {
  Buffer<uint64_t> hashes(documents.rows);
  for (size_t row = 0; row < documents.rows; ++row)
    hashes[row] = xxh64(documents.begin(row), documents.size(row));
  return hashes;
}

}  // namespace krill::datatrove
