#include "language/weights.hpp"

#include <algorithm>
#include <cstdlib>

#include "check.hpp"
#include "processor.hpp"

namespace krill::language {

namespace {

constexpr size_t kWidth = 16;  // rows are whole vectors of this many

// One loop, compiled for what every processor of the kind has and for what newer ones have.
[[gnu::always_inline]] inline void add_steps(const int16_t* steps, size_t width, int32_t* sums) {
  for (size_t i = 0; i < width; ++i) sums[i] += steps[i];
}

void add_row(const int16_t* steps, size_t width, int32_t* sums) { add_steps(steps, width, sums); }

#if defined(__x86_64__)
[[gnu::target("avx2")]] void add_row_avx2(const int16_t* steps, size_t width, int32_t* sums) {
  add_steps(steps, width, sums);
}
#endif

size_t largest(const int16_t* steps, size_t count) {
  size_t found = 0;
  for (size_t i = 0; i < count; ++i) found = std::max(found, static_cast<size_t>(std::abs(int{steps[i]})));
  return found;
}

}  // namespace

void WeightRows::check() const {
  expect(languages > 0 && languages <= 256, "there are between 1 and 256 languages");
  expect(starts[0] == 0 && starts[sparse_count] == pair_count, "features don't cover their pairs");
  expect(std::is_sorted(starts, starts + sparse_count + 1), "features overlap");
  expect(std::all_of(pair_languages, pair_languages + pair_count,
                     [this](size_t language) { return language < languages; }),
         "a pair names no language");
  const size_t most = std::max(largest(dense, dense_count * languages), largest(pair_steps, pair_count));
  expect((dense_count + sparse_count) * most < size_t{1} << 31, "the weights of all features don't add up");
}

FeatureWeights::FeatureWeights(const WeightRows& features)
    : languages_(features.languages),
      width_((features.languages + kWidth - 1) / kWidth * kWidth),
      dense_count_(features.dense_count),
      add_row_(add_row),
      dense_(Buffer<int16_t>::zeros(dense_count_ * width_)) {
  features.check();
#if defined(__x86_64__)
  if (Processor::of_this_machine().avx2) add_row_ = add_row_avx2;
#endif
  for (size_t row = 0; row < dense_count_; ++row)
    std::copy_n(features.dense + row * languages_, languages_, dense_.data() + row * width_);
  starts_.assign(features.starts, features.starts + features.sparse_count + 1);
  pair_languages_.assign(features.pair_languages, features.pair_languages + features.pair_count);
  pair_steps_.assign(features.pair_steps, features.pair_steps + features.pair_count);
}

size_t FeatureWeights::nbytes() const {
  return dense_.size() * sizeof(int16_t) + starts_.size() * sizeof(uint32_t) + pair_languages_.size() +
         pair_steps_.size() * sizeof(int16_t);
}

}  // namespace krill::language
