#include "bpe/vocabulary_merges.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace krill {

namespace {

bool joins(const Vocabulary& vocabulary, std::uint32_t left, std::uint32_t right, std::uint32_t joined) {
  const auto first = vocabulary.bytes(left);
  const auto second = vocabulary.bytes(right);
  const auto whole = vocabulary.bytes(joined);
  return whole.size() == first.size() + second.size() && std::ranges::equal(first, whole.first(first.size())) &&
         std::ranges::equal(second, whole.last(second.size()));
}

constexpr std::size_t kPairsPerGroup = 4;

// Sorted by pair; of equal pairs only the one of the highest rank.
std::vector<std::uint64_t> last_of_each(std::vector<std::uint64_t> pairs) {
  std::ranges::sort(pairs);
  const auto same_pair = [](std::uint64_t left, std::uint64_t right) {
    return left >> MergeTable::kRankBits == right >> MergeTable::kRankBits;
  };
  const auto kept = std::unique(pairs.rbegin(), pairs.rend(), same_pair);
  pairs.erase(pairs.begin(), kept.base());
  return pairs;
}

}  // namespace

MergeTable::MergeTable(const Vocabulary& vocabulary, std::span<const std::uint32_t> merges) {
  if (merges.size() % 3 != 0) throw std::invalid_argument("a merge has three ids");
  const std::size_t count = merges.size() / 3;
  if (vocabulary.size() > kMaxIds || count > kMaxMerges)
    throw std::invalid_argument("the vocabulary or its merges are too many");
  tokens_.reserve(count);
  Pairs pairs;
  pairs.reserve(count);
  for (std::size_t rank = 0; rank < count; ++rank) {
    const std::uint32_t left = merges[3 * rank], right = merges[3 * rank + 1], joined = merges[3 * rank + 2];
    for (const std::uint32_t id : {left, right, joined})
      if (!vocabulary.has(id, kWord)) throw std::invalid_argument("a merge names an id that is not a word's");
    if (!joins(vocabulary, left, right, joined))
      throw std::invalid_argument("a merge makes a token that is not its two parts");
    pairs.push_back(pair_key(left, right) << kRankBits | rank);
    tokens_.push_back(joined);
  }
  pairs = last_of_each(std::move(pairs));
  place(pairs);
  fill_byte_ranks(vocabulary, pairs);
}

// Groups by size, the largest first, while there are many free slots.
void MergeTable::place(const Pairs& pairs) {
  displacements_.assign(pairs.size() / kPairsPerGroup + 1, 0);
  slots_.assign(pairs.size() + pairs.size() / 4 + 1, kEmpty);
  std::vector<std::vector<std::uint64_t>> groups(displacements_.size());
  for (const std::uint64_t pair : pairs) groups[group_of((pair >> kRankBits) * kSpread)].push_back(pair);
  std::ranges::sort(groups, std::ranges::greater{}, [](const auto& group) { return group.size(); });
  for (const auto& group : groups)
    if (!place_group(group)) throw std::runtime_error("no room for a group of merges");
}

bool MergeTable::place_group(std::span<const std::uint64_t> group) {
  if (group.empty()) return true;
  std::uint16_t& displacement = displacements_[group_of((group.front() >> kRankBits) * kSpread)];
  for (std::uint32_t tried = 0; tried <= 0xffff; ++tried) {
    std::size_t placed = 0;
    for (; placed < group.size(); ++placed) {
      std::uint64_t& slot = slots_[slot_of((group[placed] >> kRankBits) * kSpread, tried)];
      if (slot != kEmpty) break;
      slot = group[placed];
    }
    if (placed == group.size()) {
      displacement = static_cast<std::uint16_t>(tried);
      return true;
    }
    while (placed > 0) slots_[slot_of((group[--placed] >> kRankBits) * kSpread, tried)] = kEmpty;
  }
  return false;
}

void MergeTable::fill_byte_ranks(const Vocabulary& vocabulary, const Pairs& pairs) {
  byte_ranks_.assign(256 * 256, kNever);
  for (const std::uint64_t pair : pairs) {
    const auto left = vocabulary.bytes(static_cast<std::uint32_t>(pair >> (kRankBits + kIdBits)));
    const auto right = vocabulary.bytes(static_cast<std::uint32_t>(pair >> kRankBits) & kNobody);
    if (left.size() == 1 && right.size() == 1)
      byte_ranks_[std::size_t{left[0]} << 8 | right[0]] = static_cast<std::int32_t>(pair & kMaxMerges);
  }
}

}  // namespace krill
