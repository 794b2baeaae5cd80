#include "language/feature_counter.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace krill::language {

namespace {

// A step waits for the one before it, so several ranges of a text are counted at once.
constexpr size_t kLanes = 4;
constexpr size_t kShort = 256;  // bytes for which that is not worth it
// Bytes after which the state depends on nothing before them: features are six bytes long at most. If that
// does not hold, it is detected, and the text is counted from its beginning.
constexpr size_t kWarmUp = 16;

constexpr size_t kAhead = 4;  // features whose weights are prefetched

// Rounded to 32 bits, as the peer rounds it.
double weight_of_count(uint32_t count) { return std::log1p(static_cast<float>(count)); }

}  // namespace

FeatureCounter::FeatureCounter(const FeatureAutomaton& automaton, const FeatureWeights& weights)
    : automaton_(automaton),
      weights_(weights),
      counts_(Buffer<uint32_t>::zeros(automaton.features() + FeatureAutomaton::kNoFeatures)),
      seen_(automaton.features() + 1),
      grouped_(automaton.features()),
      group_steps_(weights.width()),
      steps_(weights.width()) {
  for (size_t count = 0; count < kCommonCounts; ++count)
    weight_of_[count] = weight_of_count(static_cast<uint32_t>(count));
}

void FeatureCounter::count(std::span<const uint8_t> text) {
  if (text.size() >= kShort && count_in_lanes(text)) return;
  clear();
  count_range(FeatureAutomaton::kRoot, text);
}

void FeatureCounter::clear() {
  for (size_t i = 0; i < seen_count_; ++i) counts_[seen_[i]] = 0;
  seen_count_ = 0;
  // The numbers for no feature start at 1, so that they are never recorded as seen.
  std::fill_n(counts_.data() + automaton_.features(), FeatureAutomaton::kNoFeatures, 1);
}

void FeatureCounter::count_range(uint32_t state, std::span<const uint8_t> text) {
  Marks marks = this->marks();
  for (const uint8_t byte : text) {
    state = automaton_.next(state, byte);
    marks.add(automaton_.feature(state));
  }
  seen_count_ = marks.seen_count;
}

// False if a lane did not begin in the state in which the one before it ended.
bool FeatureCounter::count_in_lanes(std::span<const uint8_t> text) {
  clear();
  const size_t length = text.size() / kLanes;
  std::array<uint32_t, kLanes> begun{};
  for (size_t lane = 1; lane < kLanes; ++lane)
    for (const uint8_t byte : text.subspan(lane * length - kWarmUp, kWarmUp))
      begun[lane] = automaton_.next(begun[lane], byte);
  std::array<uint32_t, kLanes> states = begun;
  Marks marks = this->marks();
  for (size_t at = 0; at < length; ++at) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      states[lane] = automaton_.next(states[lane], text[lane * length + at]);
      marks.add(automaton_.feature(states[lane]));
    }
  }
  seen_count_ = marks.seen_count;
  const bool joined = std::equal(begun.begin() + 1, begun.end(), states.begin());
  count_range(states[kLanes - 1], text.subspan(kLanes * length));
  return joined;
}

FeatureCounter::Sums FeatureCounter::take() {
  group_by_count();
  std::fill(steps_.begin(), steps_.end(), 0.0);
  double all_weights = 0;
  for (size_t count = 1; count < kCommonCounts; ++count) {
    const size_t begin = group_starts_[count];
    const size_t size = group_starts_[count + 1] - begin;
    if (size == 0) continue;
    add_group({grouped_.data() + begin, size}, weight_of_[count]);
    all_weights += static_cast<double>(size) * weight_of_[count];
  }
  for (size_t i = group_starts_[kCommonCounts]; i < seen_count_; ++i) {
    const double weight = weight_of_count(counts_[grouped_[i]]);
    add_group({grouped_.data() + i, 1}, weight);
    all_weights += weight;
  }
  clear();
  return {{steps_.data(), weights_.languages()}, all_weights};
}

// Those of one count together, those of many at the end.
void FeatureCounter::group_by_count() {
  const auto group = [this](uint32_t feature) { return std::min<size_t>(counts_[feature], kCommonCounts); };
  const std::span<const uint32_t> seen(seen_.data(), seen_count_);
  group_starts_.fill(0);
  for (const uint32_t feature : seen) ++group_starts_[group(feature) + 1];
  std::partial_sum(group_starts_.begin(), group_starts_.end(), group_starts_.begin());
  std::array<uint32_t, kCommonCounts + 2> places = group_starts_;
  for (const uint32_t feature : seen) grouped_[places[group(feature)]++] = feature;
}

void FeatureCounter::add_group(std::span<const uint32_t> features, double weight) {
  std::fill(group_steps_.begin(), group_steps_.end(), 0);
  for (size_t i = 0; i < features.size(); ++i) {
    if (i + kAhead < features.size()) weights_.prefetch(features[i + kAhead]);
    weights_.add(features[i], group_steps_.data());
  }
  for (size_t language = 0; language < steps_.size(); ++language)
    steps_[language] += weight * group_steps_[language];
}

}  // namespace krill::language
