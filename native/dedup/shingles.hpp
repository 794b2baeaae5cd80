// Shingles: the hash of each run of `ngram` words of a text, as TextFolder gives them. Held: the hashes of
// the last words, whatever the length of the text.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "dedup/fold.hpp"
#include "dedup/hash.hpp"

namespace krill::dedup {

// The last step of MurmurHash3: every bit of the word takes part in every bit of the result.
inline uint64_t mix64(uint64_t word) {
  word = (word ^ (word >> 33)) * 0xff51afd7ed558ccdu;
  word = (word ^ (word >> 33)) * 0xc4ceb9fe1a85ec53u;
  return word ^ (word >> 33);
}

constexpr size_t kMostWords = 100;

inline void check_ngram(size_t ngram) {
  if (ngram == 0 || ngram > kMostWords) throw std::invalid_argument("a shingle has 1 to 100 words");
}

// Calls `sink.shingle(hash)`. Fewer words than `ngram` are one shingle, and no words the hash of the bytes
// themselves, so that equal texts have equal shingles however short they are.
template <class Sink>
class Shingler {
 public:
  Shingler(size_t ngram, Sink& sink) : ngram_(ngram), sink_(sink) {
    check_ngram(ngram);
    for (size_t word = 0; word < ngram; ++word) oldest_factor_ *= kFactor;
  }

  void text(const uint8_t* bytes, size_t size) {
    words_ = 0;
    window_ = 0;
    word_ = kNoWord;
    TextFolder(*this).fold(bytes, size);
    gap();
    if (words_ == 0) {
      sink_.shingle(hash_bytes(bytes, size, 0).low);
    } else if (words_ < ngram_) {
      sink_.shingle(mix64(window_));
    }
  }

  void letter(uint32_t point) { word_ = std::rotl(word_ ^ point, 23) * kFactor; }

  void gap() {
    if (word_ == kNoWord) return;
    const uint64_t word = mix64(word_);
    word_ = kNoWord;
    // A polynomial of the last words' hashes, from which the oldest is taken as the next one comes.
    uint64_t& place = recent_[words_ % ngram_];
    window_ = window_ * kFactor + word;
    if (words_ >= ngram_) window_ -= place * oldest_factor_;
    place = word;
    if (++words_ >= ngram_) sink_.shingle(mix64(window_));
  }

 private:
  static constexpr uint64_t kFactor = 0x9e3779b97f4a7c15u;
  static constexpr uint64_t kNoWord = 0x243f6a8885a308d3u;

  size_t ngram_;
  Sink& sink_;
  uint64_t oldest_factor_ = 1;
  uint64_t word_ = kNoWord;
  uint64_t window_ = 0;
  size_t words_ = 0;
  std::array<uint64_t, kMostWords> recent_;
};

}  // namespace krill::dedup
