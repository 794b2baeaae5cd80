#include "language/automaton.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "check.hpp"

namespace krill::language {

namespace {

constexpr size_t kBytes = 256;
constexpr size_t kMaxEntries = size_t{1} << 24;  // 8 of a row's 32 bits name the default row
constexpr uint32_t kNoRow = 0xffffffff;

bool all_below(const uint32_t* numbers, size_t count, size_t limit) {
  return std::all_of(numbers, numbers + count, [limit](uint32_t number) { return number < limit; });
}

// Where rows may still go: places that are taken, and beginnings that are.
class Places {
 public:
  // Longest rows come first, so a row seldom fits before where one of its length went: it is sought from
  // there.
  uint32_t take(const uint8_t* bytes, size_t count) {
    if (count != length_) {
      length_ = count;
      from_ = 0;
    }
    while (!fits(bytes, count)) ++from_;
    for (size_t entry = 0; entry < count; ++entry) taken_[from_ + bytes[entry]] = true;
    begun_[from_] = true;
    return static_cast<uint32_t>(from_++);
  }

  size_t size() const { return taken_.size(); }

 private:
  bool fits(const uint8_t* bytes, size_t count) {
    if (from_ + kBytes > taken_.size()) {
      expect(from_ + 2 * kBytes < kMaxEntries, "the rows differ too much");
      taken_.resize(from_ + kBytes);
      begun_.resize(from_ + kBytes);
    }
    if (begun_[from_] != 0) return false;
    return std::none_of(bytes, bytes + count, [this](uint8_t byte) { return taken_[from_ + byte] != 0; });
  }

  std::vector<uint8_t> taken_;
  std::vector<uint8_t> begun_;
  size_t length_ = 0;
  size_t from_ = 0;
};

}  // namespace

void AutomatonRows::check() const {
  expect(state_count > 0 && row_count > 0, "an automaton has a state and a row");
  expect(default_count > 0 && default_count <= kBytes, "there are between 1 and 256 default rows");
  expect(all_below(defaults, default_count * kBytes, state_count), "a default row leads to no state");
  expect(all_below(targets, entry_count, state_count), "a row leads to no state");
  expect(all_below(row_of, state_count, row_count), "a state has no row");
  expect(all_below(feature_of, state_count, feature_count + 1), "a state has no such feature");
  expect(std::all_of(default_of, default_of + row_count, [this](size_t row) { return row < default_count; }),
         "a row has no default");
  expect(starts[0] == 0 && starts[row_count] == entry_count, "rows don't cover their entries");
  for (size_t row = 0; row < row_count; ++row) {
    expect(starts[row] <= starts[row + 1] && starts[row + 1] <= entry_count, "rows overlap");
    for (size_t entry = starts[row] + size_t{1}; entry < starts[row + 1]; ++entry)
      expect(bytes[entry - 1] < bytes[entry], "the bytes of a row must rise");
  }
}

FeatureAutomaton::FeatureAutomaton(const AutomatonRows& rows) : FeatureAutomaton(rows, place(rows)) {}

FeatureAutomaton::FeatureAutomaton(const AutomatonRows& rows, const Placement& placed)
    : features_(rows.feature_count),
      entries_(placed.size),
      defaults_(rows.defaults, rows.defaults + rows.default_count * kBytes) {
  std::fill_n(entries_.data(), entries_.size(), Entry{kNoRow, kRoot});
  for (size_t row = 0; row < rows.row_count; ++row) {
    const uint32_t row_at = placed.row_at[row];
    for (size_t entry = rows.starts[row]; entry < rows.starts[row + 1]; ++entry)
      entries_[(row_at >> 8) + rows.bytes[entry]] = {row_at, rows.targets[entry]};
  }
  states_.reserve(rows.state_count);
  for (size_t state = 0; state < rows.state_count; ++state) {
    uint32_t feature = rows.feature_of[state];
    if (feature == rows.feature_count) feature += static_cast<uint32_t>(state % kNoFeatures);
    states_.push_back({placed.row_at[rows.row_of[state]], feature});
  }
}

FeatureAutomaton::Placement FeatureAutomaton::place(const AutomatonRows& rows) {
  rows.check();
  const auto length = [&](size_t row) { return rows.starts[row + 1] - rows.starts[row]; };
  std::vector<uint32_t> order(rows.row_count);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](auto left, auto right) { return length(left) > length(right); });
  Places places;
  std::vector<uint32_t> row_at(rows.row_count);
  for (const uint32_t row : order)
    row_at[row] = places.take(rows.bytes + rows.starts[row], length(row)) << 8 | rows.default_of[row];
  return {std::move(row_at), places.size()};
}

size_t FeatureAutomaton::nbytes() const {
  return states_.size() * sizeof(State) + entries_.size() * sizeof(Entry) +
         defaults_.size() * sizeof(uint32_t);
}

}  // namespace krill::language
