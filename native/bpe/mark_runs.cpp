#include "bpe/mark_runs.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <vector>

#include "bpe/symbols.hpp"

namespace krill::bpe {

namespace {

constexpr size_t kLengths = 64;
constexpr size_t kNever = std::numeric_limits<size_t>::max();

// Ranks by the lengths of the two parts.
using Ranks = std::array<std::array<size_t, kLengths>, kLengths>;

// How many U+2581 a token begins with.
size_t leading_marks(std::span<const uint8_t> token) {
  size_t at = 0;
  while (token.size() - at >= 3 && next_character(token.data() + at, token.size() - at).point == kMark)
    at += 3;
  return at / 3;
}

// The length of the last token of a run.
size_t last_of_run(size_t length, const Ranks& ranks) {
  std::vector<size_t> run(length, 1);
  for (;;) {
    size_t least = kNever, at = 0;
    for (size_t i = 0; i + 1 < run.size(); ++i) {
      const size_t rank = ranks[run[i]][run[i + 1]];
      if (rank >= least) continue;
      least = rank;
      at = i;
    }
    if (least == kNever) return run.back();
    run[at] += run[at + 1];
    run.erase(run.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

}  // namespace

uint64_t separate_mark_runs(const Vocabulary& vocabulary, std::span<const uint32_t> merges) {
  Ranks ranks;
  for (auto& row : ranks) row.fill(kNever);
  size_t last_within = 0, first_joining = kNever;
  for (size_t at = 0; at < merges.size(); at += 3) {
    const auto left = vocabulary.bytes(merges[at]), right = vocabulary.bytes(merges[at + 1]);
    const size_t marks = leading_marks(left), more = leading_marks(right);
    if (marks == 0 || 3 * marks != left.size()) continue;
    if (more == 0) {
      if (marks > 1) return 0;
      first_joining = std::min(first_joining, at);
    } else if (3 * more == right.size() && marks < kLengths && more < kLengths) {
      ranks[marks][more] = at;  // of a pair that occurs twice the last counts
      last_within = std::max(last_within, at);
    }
  }
  if (last_within > first_joining) return 0;
  uint64_t separate = 0;
  for (size_t length = 2; length < kLengths; ++length)
    if (last_of_run(length, ranks) > 1) separate |= uint64_t{1} << length;
  return separate;
}

}  // namespace krill::bpe
