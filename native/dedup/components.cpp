#include "dedup/components.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <stdexcept>

namespace krill::dedup {
namespace {

constexpr uint64_t kWordsPerRank = 4;
constexpr uint64_t kDocumentsPerRank = 64 * kWordsPerRank;

size_t words_for(uint64_t documents) {
  if (documents > uint64_t{1} << 48) throw std::length_error("more documents than numbers");
  return static_cast<size_t>((documents / kDocumentsPerRank + 1) * kWordsPerRank);
}

}  // namespace

Components::Components(uint64_t documents)
    : documents_(documents),
      bits_(Buffer<uint64_t>::zeros(words_for(documents))),
      ranks_(bits_.size() / kWordsPerRank) {}

void Components::check(const Hash& edge) const {
  if (edge.low >= documents_ || edge.high >= documents_) throw std::out_of_range("an edge to no document");
}

void Components::mark(const Hash* edges, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    check(edges[i]);
    for (const uint64_t document : {edges[i].low, edges[i].high})
      bits_[document / 64] |= uint64_t{1} << document % 64;
  }
}

uint64_t Components::members() {
  uint64_t total = 0;
  for (size_t word = 0; word < bits_.size(); ++word) {
    if (total > std::numeric_limits<uint32_t>::max())
      throw std::length_error("more than 2^32 documents have edges");
    if (word % kWordsPerRank == 0) ranks_[word / kWordsPerRank] = static_cast<uint32_t>(total);
    total += static_cast<uint64_t>(std::popcount(bits_[word]));
  }
  return total;
}

uint32_t Components::rank(uint64_t document) const {
  const uint64_t word = document / 64;
  uint32_t before = ranks_[word / kWordsPerRank];
  for (uint64_t w = word - word % kWordsPerRank; w < word; ++w)
    before += static_cast<uint32_t>(std::popcount(bits_[w]));
  const uint64_t below = (uint64_t{1} << document % 64) - 1;
  return before + static_cast<uint32_t>(std::popcount(bits_[word] & below));
}

uint64_t Components::document(uint32_t member) const {
  const uint32_t* found = std::upper_bound(ranks_.data(), ranks_.data() + ranks_.size(), member) - 1;
  uint64_t word = static_cast<uint64_t>(found - ranks_.data()) * kWordsPerRank;
  uint32_t left = member - *found;
  while (left >= static_cast<uint32_t>(std::popcount(bits_[word])))
    left -= static_cast<uint32_t>(std::popcount(bits_[word++]));
  uint64_t bits = bits_[word];
  while (left-- > 0) bits &= bits - 1;
  return word * 64 + static_cast<uint64_t>(std::countr_zero(bits));
}

// Made at the first join: every document is its own component.
Buffer<uint32_t>& Components::parents() {
  if (!parents_) {
    parents_.emplace(static_cast<size_t>(members()));
    for (size_t member = 0; member < parents_->size(); ++member)
      (*parents_)[member] = static_cast<uint32_t>(member);
  }
  return *parents_;
}

// Ranks rise with document numbers, so the smallest member is the smallest document. Halves the path.
uint32_t Components::root(uint32_t member) {
  Buffer<uint32_t>& parents = *parents_;
  while (parents[member] != member) {
    parents[member] = parents[parents[member]];
    member = parents[member];
  }
  return member;
}

void Components::join(const Hash* edges, size_t count) {
  Buffer<uint32_t>& members = parents();
  for (size_t i = 0; i < count; ++i) {
    check(edges[i]);
    if (!marked(edges[i].low) || !marked(edges[i].high))
      throw std::invalid_argument("an edge that was not marked");
    const uint32_t one = root(rank(edges[i].low));
    const uint32_t other = root(rank(edges[i].high));
    members[std::max(one, other)] = std::min(one, other);
  }
}

Components::Summary Components::count(uint64_t prior) {
  Buffer<uint32_t>& heads = parents();
  Buffer<uint32_t>& sizes = sizes_.emplace(Buffer<uint32_t>::zeros(heads.size()));
  const uint32_t members = static_cast<uint32_t>(heads.size());
  const uint32_t first = prior < documents_ ? rank(prior) : members;
  for (uint32_t member = 0; member < members; ++member) {
    heads[member] = root(member);
    if (member >= first) ++sizes[heads[member]];
  }
  Summary summary{0, 0};
  for (uint32_t member = 0; member < members; ++member) {
    if (heads[member] != member) continue;
    const uint32_t kept = member >= first ? 1 : 0;
    summary.clusters += sizes[member] > kept;
    summary.largest = std::max<uint64_t>(summary.largest, sizes[member]);
  }
  return summary;
}

void Components::labels(uint64_t first, size_t count, uint64_t* smallest, uint32_t* sizes) const {
  if (first > documents_ || count > documents_ - first) throw std::out_of_range("labels of no document");
  if (!sizes_) throw std::logic_error("labels before components were counted");
  uint32_t member = rank(first);
  for (size_t i = 0; i < count; ++i) {
    smallest[i] = first + i;
    sizes[i] = 1;
    if (!marked(first + i)) continue;
    const uint32_t head = (*parents_)[member];
    if (head != member) smallest[i] = document(head);
    sizes[i] = (*sizes_)[head];
    ++member;
  }
}

}  // namespace krill::dedup
