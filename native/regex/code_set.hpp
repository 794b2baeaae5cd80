// A set of code points, as ranges. Sets of properties have up to some thousand ranges, those of classes few.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace krill::regex {

constexpr uint32_t kLastPoint = 0x10ffff;

struct Range {
  uint32_t first;
  uint32_t last;
  bool operator==(const Range&) const = default;
};

class CodeSet {
 public:
  CodeSet() = default;
  CodeSet(uint32_t first, uint32_t last) { add(first, last); }

  static CodeSet all() { return {0, kLastPoint}; }

  // Ranges stay sorted and apart; adding in order takes constant time. What lies beyond Unicode is left out.
  void add(uint32_t first, uint32_t last) {
    last = std::min(last, kLastPoint);
    if (first > last) return;
    if (!ranges_.empty() && first <= ranges_.back().last) {
      insert(first, last);
    } else if (!ranges_.empty() && first == ranges_.back().last + 1) {
      ranges_.back().last = last;
    } else {
      ranges_.push_back({first, last});
    }
  }

  void add(uint32_t point) { add(point, point); }

  void add(const CodeSet& other) {
    std::vector<Range> both;
    both.reserve(ranges_.size() + other.ranges_.size());
    std::merge(ranges_.begin(), ranges_.end(), other.ranges_.begin(), other.ranges_.end(),
               std::back_inserter(both), [](const Range& a, const Range& b) { return a.first < b.first; });
    ranges_.clear();
    for (const Range& range : both) {
      if (!ranges_.empty() && range.first <= ranges_.back().last + 1) {
        ranges_.back().last = std::max(ranges_.back().last, range.last);
      } else {
        ranges_.push_back(range);
      }
    }
  }

  CodeSet complement() const {
    CodeSet rest;
    uint32_t at = 0;
    for (const Range& range : ranges_) {
      if (at < range.first) rest.ranges_.push_back({at, range.first - 1});
      at = range.last + 1;
    }
    if (at <= kLastPoint) rest.ranges_.push_back({at, kLastPoint});
    return rest;
  }

  CodeSet intersection(const CodeSet& other) const {
    CodeSet result = complement();
    result.add(other.complement());
    return result.complement();
  }

  bool contains(uint32_t point) const {
    const auto after =
        std::upper_bound(ranges_.begin(), ranges_.end(), point,
                         [](uint32_t value, const Range& range) { return value < range.first; });
    return after != ranges_.begin() && point <= std::prev(after)->last;
  }

  bool empty() const { return ranges_.empty(); }
  const std::vector<Range>& ranges() const { return ranges_; }
  bool operator==(const CodeSet&) const = default;

 private:
  void insert(uint32_t first, uint32_t last) {
    CodeSet one;
    one.ranges_.push_back({first, last});
    add(one);
  }

  std::vector<Range> ranges_;
};

}  // namespace krill::regex
