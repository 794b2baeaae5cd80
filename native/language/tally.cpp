#include "language/tally.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace krill::language {

namespace {

// A step waits for the one before it, so several places of a text are walked at once.
constexpr size_t kLanes = 4;
constexpr size_t kShort = 256;  // bytes for which that is not worth it
// Bytes after which the state depends on nothing before them: features are six bytes long at most. Where that
// should not hold, it shows, and the text is walked from its beginning.
constexpr size_t kWarmUp = 16;

constexpr size_t kAhead = 4;  // features whose weights are on their way

// Rounded to 32 bits, as the peer rounds it.
double weight_of_count(uint32_t count) { return std::log1p(static_cast<float>(count)); }

}  // namespace

LanguageTally::LanguageTally(const LanguageWalk& walk, const LanguageWeights& weights)
    : walk_(walk),
      weights_(weights),
      counts_(Buffer<uint32_t>::zeros(walk.features() + LanguageWalk::kNoFeatures)),
      seen_(walk.features() + 1),
      grouped_(walk.features()),
      group_steps_(weights.width()),
      steps_(weights.width()) {
  for (size_t count = 0; count < kCommonCounts; ++count)
    weight_of_[count] = weight_of_count(static_cast<uint32_t>(count));
}

void LanguageTally::count(std::span<const uint8_t> text) {
  if (text.size() >= kShort && count_in_lanes(text)) return;
  clear();
  count_stretch(LanguageWalk::kRoot, text);
}

void LanguageTally::clear() {
  for (size_t i = 0; i < seen_count_; ++i) counts_[seen_[i]] = 0;
  seen_count_ = 0;
  // What stands for no feature is never seen for the first time, so never seen.
  std::fill_n(counts_.data() + walk_.features(), LanguageWalk::kNoFeatures, 1);
}

void LanguageTally::count_stretch(uint32_t state, std::span<const uint8_t> text) {
  Marks marks = this->marks();
  for (const uint8_t byte : text) {
    state = walk_.next(state, byte);
    marks.add(walk_.feature(state));
  }
  seen_count_ = marks.seen_count;
}

// False if a lane did not begin in the state in which the one before it ended.
bool LanguageTally::count_in_lanes(std::span<const uint8_t> text) {
  clear();
  const size_t length = text.size() / kLanes;
  std::array<uint32_t, kLanes> begun{};
  for (size_t lane = 1; lane < kLanes; ++lane)
    for (const uint8_t byte : text.subspan(lane * length - kWarmUp, kWarmUp))
      begun[lane] = walk_.next(begun[lane], byte);
  std::array<uint32_t, kLanes> states = begun;
  Marks marks = this->marks();
  for (size_t at = 0; at < length; ++at) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      states[lane] = walk_.next(states[lane], text[lane * length + at]);
      marks.add(walk_.feature(states[lane]));
    }
  }
  seen_count_ = marks.seen_count;
  const bool joined = std::equal(begun.begin() + 1, begun.end(), states.begin());
  count_stretch(states[kLanes - 1], text.subspan(kLanes * length));
  return joined;
}

LanguageTally::Sums LanguageTally::take() {
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
void LanguageTally::group_by_count() {
  const auto group = [this](uint32_t feature) { return std::min<size_t>(counts_[feature], kCommonCounts); };
  const std::span<const uint32_t> seen(seen_.data(), seen_count_);
  group_starts_.fill(0);
  for (const uint32_t feature : seen) ++group_starts_[group(feature) + 1];
  std::partial_sum(group_starts_.begin(), group_starts_.end(), group_starts_.begin());
  std::array<uint32_t, kCommonCounts + 2> places = group_starts_;
  for (const uint32_t feature : seen) grouped_[places[group(feature)]++] = feature;
}

void LanguageTally::add_group(std::span<const uint32_t> features, double weight) {
  std::fill(group_steps_.begin(), group_steps_.end(), 0);
  for (size_t i = 0; i < features.size(); ++i) {
    if (i + kAhead < features.size()) weights_.prefetch(features[i + kAhead]);
    weights_.add(features[i], group_steps_.data());
  }
  for (size_t language = 0; language < steps_.size(); ++language)
    steps_[language] += weight * group_steps_[language];
}

}  // namespace krill::language
