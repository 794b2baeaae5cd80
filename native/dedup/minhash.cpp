#include "dedup/minhash.hpp"

#include <algorithm>
#include <stdexcept>

#include "dedup/hash.hpp"
#include "dedup/minhash_lanes.hpp"
#include "dedup/shingles.hpp"
#include "processor.hpp"

namespace krill::dedup {
namespace {

using FoldBatch = void (*)(const ShingleBatch&, const uint32_t*, const uint32_t*, uint32_t*, size_t);

void fold_batch(const ShingleBatch& batch, const uint32_t* low_factors, const uint32_t* high_factors,
                uint32_t* least, size_t permutations) {
  for (size_t at = 0; at < permutations; at += kLanes)
    fold_lanes<16>(batch, low_factors + at, high_factors + at, least + at);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void fold_batch_avx2(const ShingleBatch& batch, const uint32_t* low_factors,
                                                     const uint32_t* high_factors, uint32_t* least,
                                                     size_t permutations) {
  for (size_t at = 0; at < permutations; at += kLanes)
    fold_lanes<32>(batch, low_factors + at, high_factors + at, least + at);
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
  Signature(const uint32_t* low_factors, const uint32_t* high_factors, size_t permutations)
      : low_factors_(low_factors), high_factors_(high_factors), least_(permutations) {}

  void begin() { std::fill(least_.begin(), least_.end(), ~uint32_t{0}); }

  void shingle(uint64_t hash) {
    batch_.low[batch_.size] = static_cast<uint32_t>(hash);
    batch_.high[batch_.size] = static_cast<uint32_t>(hash >> 32);
    if (++batch_.size == kBatch) fold();
  }

  const uint32_t* end() {
    fold();
    return least_.data();
  }

 private:
  void fold() {
    fold_batch_(batch_, low_factors_, high_factors_, least_.data(), least_.size());
    batch_.size = 0;
  }

  const uint32_t* low_factors_;
  const uint32_t* high_factors_;
  FoldBatch fold_batch_ = best_fold_batch();
  std::vector<uint32_t> least_;
  ShingleBatch batch_;
};

struct Collector {
  uint64_t* next;
  void shingle(uint64_t hash) { *next++ = hash; }
};

class Writer {
 public:
  explicit Writer(uint8_t* begin) : begin_(begin), next_(begin) {}

  void letter(uint32_t point) {
    if (gap_ && next_ != begin_) *next_++ = ' ';
    gap_ = false;
    if (point < 0x80) {
      *next_++ = static_cast<uint8_t>(point);
    } else if (point < 0x800) {
      put(0xc0 | point >> 6, point, 1);
    } else if (point < 0x10000) {
      put(0xe0 | point >> 12, point, 2);
    } else {
      put(0xf0 | point >> 18, point, 3);
    }
  }
  void gap() { gap_ = true; }
  const uint8_t* end() const { return next_; }

 private:
  void put(uint32_t lead, uint32_t point, unsigned more) {
    *next_++ = static_cast<uint8_t>(lead);
    while (more-- > 0) *next_++ = static_cast<uint8_t>(0x80 | (point >> (6 * more) & 0x3f));
  }

  uint8_t* begin_;
  uint8_t* next_;
  bool gap_ = false;
};

}  // namespace

MinHasher::MinHasher(size_t bands, size_t rows, size_t ngram) : bands_(bands), rows_(rows), ngram_(ngram) {
  if (bands == 0 || rows == 0 || bands > kMostPermutations || rows > kMostPermutations / bands)
    throw std::invalid_argument("bands and rows are 1 or more, and at most 4096 together");
  check_ngram(ngram);
  const size_t permutations = (bands * rows + kLanes - 1) / kLanes * kLanes;
  for (size_t i = 0; i < permutations; ++i) {
    // Odd factors are bijections of 32 bits. A product's weight is in its high bits, which is where numbers
    // differ first.
    const uint64_t random = mix64((i + 1) * 0x9e3779b97f4a7c15u);
    low_factors_.push_back(static_cast<uint32_t>(random) | 1);
    high_factors_.push_back(static_cast<uint32_t>(random >> 32) | 1);
  }
}

Buffer<uint64_t> MinHasher::bands_of(const text::TextColumn& documents) const {
  Buffer<uint64_t> bands(documents.rows * bands_);
  Signature signature(low_factors_.data(), high_factors_.data(), low_factors_.size());
  Shingler shingler(ngram_, signature);
  for (size_t row = 0; row < documents.rows; ++row) {
    signature.begin();
    shingler.text(documents.begin(row), documents.size(row));
    const auto* least = reinterpret_cast<const uint8_t*>(signature.end());
    const size_t width = rows_ * sizeof(uint32_t);
    for (size_t band = 0; band < bands_; ++band)
      bands[row * bands_ + band] = hash_bytes(least + band * width, width, static_cast<uint32_t>(band)).low;
  }
  return bands;
}

// A word takes a byte and the gap after it another, so there are at most half as many shingles as bytes, and
// one.
ShingleSets shingle_sets(const text::TextColumn& documents, size_t ngram) {
  ShingleSets sets{Buffer<uint64_t>(documents.total() / 2 + documents.rows),
                   Buffer<int64_t>(documents.rows + 1)};
  Collector collector{sets.shingles.data()};
  Shingler shingler(ngram, collector);
  sets.offsets[0] = 0;
  for (size_t row = 0; row < documents.rows; ++row) {
    uint64_t* begin = collector.next;
    shingler.text(documents.begin(row), documents.size(row));
    std::sort(begin, collector.next);
    collector.next = std::unique(begin, collector.next);
    sets.offsets[row + 1] = collector.next - sets.shingles.data();
  }
  sets.shingles.trim(static_cast<size_t>(sets.offsets[documents.rows]));
  return sets;
}

// No character decomposes into more than three times its bytes; Hangul reaches that.
FoldedText folded_text(const text::TextColumn& documents) {
  FoldedText folded{Buffer<uint8_t>(3 * documents.total()), Buffer<int64_t>(documents.rows + 1)};
  folded.offsets[0] = 0;
  for (size_t row = 0; row < documents.rows; ++row) {
    Writer writer(folded.bytes.data() + folded.offsets[row]);
    TextFolder(writer).fold(documents.begin(row), documents.size(row));
    folded.offsets[row + 1] = writer.end() - folded.bytes.data();
  }
  folded.bytes.trim(static_cast<size_t>(folded.offsets[documents.rows]));
  return folded;
}

}  // namespace krill::dedup
