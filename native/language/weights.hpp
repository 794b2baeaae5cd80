// The weight of each feature for each language: logarithms of probabilities, as differences from a language's
// own background, in multiples (steps) of a power of two.
//
// Most features have a weight for few languages: these are stored as pairs of language and difference, the
// others as whole rows. Steps and background are exact, and so are sums of them: they depend on no order and
// no machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "buffer.hpp"

namespace krill::language {

// As read from the model's file; borrowed while the weights are made.
struct WeightRows {
  size_t languages;
  const int16_t* dense;  // dense_count rows of `languages` differences: features from 0 on
  size_t dense_count;
  const uint32_t* starts;  // sparse_count + 1: where the pairs of each further feature begin
  size_t sparse_count;
  const uint8_t* pair_languages;
  const int16_t* pair_steps;
  size_t pair_count;

  void check() const;  // throws std::invalid_argument
};

class FeatureWeights {
 public:
  explicit FeatureWeights(const WeightRows& features);

  // Adds a feature's weights, in steps, to a sum for each language. The sums of all features fit.
  void add(uint32_t feature, int32_t* sums) const {
    if (feature < dense_count_) return add_row_(dense_.data() + size_t{feature} * width_, width_, sums);
    const size_t index = feature - dense_count_;
    for (size_t pair = starts_[index]; pair < starts_[index + 1]; ++pair)
      sums[pair_languages_[pair]] += pair_steps_[pair];
  }

  // Prefetches what `add` will read.
  void prefetch(uint32_t feature) const {
    if (feature < dense_count_) {
      const int16_t* row = dense_.data() + size_t{feature} * width_;
      for (size_t step = 0; step < width_; step += kLine / sizeof(int16_t)) __builtin_prefetch(row + step);
    } else {
      const size_t begin = starts_[feature - dense_count_];
      __builtin_prefetch(pair_languages_.data() + begin);
      __builtin_prefetch(pair_steps_.data() + begin);
      __builtin_prefetch(pair_steps_.data() + begin + kLine / sizeof(int16_t));
    }
  }

  size_t features() const { return dense_count_ + starts_.size() - 1; }
  size_t languages() const { return languages_; }
  size_t width() const { return width_; }  // of the sums: languages, and some more to make vectors whole
  size_t nbytes() const;

 private:
  static constexpr size_t kLine = 64;  // bytes of a cache line

  using AddRow = void (*)(const int16_t*, size_t, int32_t*);

  size_t languages_;
  size_t width_;
  size_t dense_count_;
  AddRow add_row_;
  Buffer<int16_t> dense_;  // in huge pages where available
  std::vector<uint32_t> starts_;
  std::vector<uint8_t> pair_languages_;
  std::vector<int16_t> pair_steps_;
};

}  // namespace krill::language
