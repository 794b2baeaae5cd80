#include "regex/unicode.hpp"

#include <algorithm>

namespace krill::regex {

uint32_t read_number(const uint8_t*& at) {
  uint32_t number = 0;
  for (unsigned shift = 0;; shift += 7) {
    const uint8_t byte = *at++;
    number |= (byte & 0x7fu) << shift;
    if (byte < 0x80) return number;
  }
}

CodeSet read_ranges(const uint8_t* at) {
  CodeSet set;
  uint32_t point = 0;
  for (uint32_t count = read_number(at); count > 0; --count) {
    const uint32_t first = point + read_number(at);
    point = first + read_number(at) + 1;
    set.add(first, point - 1);
  }
  return set;
}

namespace {

std::vector<uint32_t> next_numbers(const uint8_t*& at) {
  std::vector<uint32_t> numbers(read_number(at));
  for (uint32_t& number : numbers) number = read_number(at);
  return numbers;
}

}  // namespace

bool find_property(std::string_view name, CodeSet& set) {
  const Property* const end = kPropertyNames + kProperties;
  const Property* const found = std::lower_bound(
      kPropertyNames, end, name, [](const Property& a, std::string_view b) { return a.name < b; });
  if (found == end || found->name != name) return false;
  set = read_ranges(kPropertyRanges + found->offset);
  return true;
}

CaseFolding::CaseFolding() {
  const uint8_t* at = kFoldedClassPoints;
  for (size_t count = 0; count < kFoldedClasses; ++count) classes_.push_back(next_numbers(at));
  at = kFoldedSequencePoints;
  for (size_t count = 0; count < kFoldedSequences; ++count) {
    std::vector<uint32_t> points = next_numbers(at);
    const uint32_t one = points.front();
    points.erase(points.begin());
    sequences_.push_back({one, std::move(points)});
  }
  for (uint32_t number = 0; number < classes_.size(); ++number) {
    for (const uint32_t point : classes_[number]) members_.push_back({point, number});
  }
  std::sort(members_.begin(), members_.end());
}

const CaseFolding& CaseFolding::instance() {
  static const CaseFolding folding;
  return folding;
}

size_t CaseFolding::class_of(uint32_t point) const {
  const auto found = std::lower_bound(members_.begin(), members_.end(), std::array<uint32_t, 2>{point, 0});
  return found != members_.end() && (*found)[0] == point ? (*found)[1] : classes_.size();
}

CodeSet CaseFolding::same_as(uint32_t point) const {
  CodeSet set(point, point);
  const size_t number = class_of(point);
  if (number < classes_.size()) {
    for (const uint32_t other : classes_[number]) set.add(other);
  }
  return set;
}

bool CaseFolding::are_same(uint32_t one, uint32_t other) const {
  return one == other || (class_of(one) == class_of(other) && class_of(one) < classes_.size());
}

CodeSet CaseFolding::closed(const CodeSet& set) const {
  std::vector<bool> present(classes_.size());
  for (const Range& range : set.ranges()) {
    auto member = std::lower_bound(members_.begin(), members_.end(), std::array<uint32_t, 2>{range.first, 0});
    for (; member != members_.end() && (*member)[0] <= range.last; ++member) present[(*member)[1]] = true;
  }
  CodeSet others;
  for (const auto& [point, number] : members_) {
    if (present[number]) others.add(point);
  }
  others.add(set);
  return others;
}

size_t CaseFolding::match_sequence(const uint32_t* points, size_t count, CodeSet& ones) const {
  const auto same = [&](uint32_t a, uint32_t b) { return are_same(a, b); };
  for (size_t length = 3; length >= 2; --length) {
    if (count < length) continue;
    for (const FoldedSequence& sequence : sequences_) {
      if (sequence.points.size() == length &&
          std::equal(sequence.points.begin(), sequence.points.end(), points, same))
        ones.add(sequence.point);
    }
    if (!ones.empty()) return length;
  }
  return 0;
}

}  // namespace krill::regex
