// How often each feature occurs in a text, and the sum of their weights.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "buffer.hpp"
#include "language/automaton.hpp"
#include "language/weights.hpp"

namespace krill::language {

// One for each thread, used for one text after another. Holds 12 bytes for each feature.
class FeatureCounter {
 public:
  FeatureCounter(const FeatureAutomaton& automaton, const FeatureWeights& weights);

  void count(std::span<const uint8_t> text);

  // For each language the sum of the counted features' weights in steps, each times the weight of its count;
  // the background, which is not included, has to be added `all_weights` times. Resets the counts.
  struct Sums {
    std::span<const double> steps;
    double all_weights;  // 0 = no feature at all
  };
  Sums take();

 private:
  // Features of equal count are summed together, in integers; from this count on each by itself.
  static constexpr size_t kCommonCounts = 256;

  // The counters, in a struct of their own so that a loop keeps it in registers.
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
  void count_range(uint32_t state, std::span<const uint8_t> text);
  bool count_in_lanes(std::span<const uint8_t> text);
  void group_by_count();
  void add_group(std::span<const uint32_t> features, double weight);

  const FeatureAutomaton& automaton_;
  const FeatureWeights& weights_;
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
