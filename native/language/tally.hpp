// How often each feature stands in a text, and what that adds up to.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "buffer.hpp"
#include "language/walk.hpp"
#include "language/weights.hpp"

namespace krill::language {

// One for each thread, used for one text after another. Holds 12 bytes for each feature.
class LanguageTally {
 public:
  LanguageTally(const LanguageWalk& walk, const LanguageWeights& weights);

  void count(std::span<const uint8_t> text);

  // For each language the sum, over the features counted, of what they say in steps, weighted by how often
  // each stands there; what one says that says nothing is not in it, but `all_weights` times. Begins anew.
  struct Sums {
    std::span<const double> steps;
    double all_weights;  // 0 = no feature at all
  };
  Sums take();

 private:
  // Features that stand equally often are added up together, in whole numbers; from here on each stands
  // alone.
  static constexpr size_t kCommonCounts = 256;

  // Where features are marked, by itself so that a loop keeps it in registers.
  struct Marks {
    uint32_t* counts;
    uint32_t* seen;
    size_t seen_count;

    void add(uint32_t feature) {
      const uint32_t before = counts[feature]++;
      seen[seen_count] = feature;  // there is room for one more than all
      seen_count += before == 0;
    }
  };

  Marks marks() { return {counts_.data(), seen_.data(), seen_count_}; }
  void clear();
  void count_stretch(uint32_t state, std::span<const uint8_t> text);
  bool count_in_lanes(std::span<const uint8_t> text);
  void group_by_count();
  void add_group(std::span<const uint32_t> features, double weight);

  const LanguageWalk& walk_;
  const LanguageWeights& weights_;
  Buffer<uint32_t> counts_;
  Buffer<uint32_t> seen_;
  size_t seen_count_ = 0;
  Buffer<uint32_t> grouped_;
  std::array<uint32_t, kCommonCounts + 2> group_starts_{};
  std::array<double, kCommonCounts> weight_of_;
  std::vector<int32_t> group_steps_;
  std::vector<double> steps_;
};

}  // namespace krill::language
