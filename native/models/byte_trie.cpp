#include "models/byte_trie.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "check.hpp"

namespace krill::models {

namespace {

// One bit for each unit of a block.
using Bits = std::array<uint64_t, 4>;

// Bit b of the result is bit b XOR `label` of `bits`.
Bits permuted(const Bits& bits, uint8_t label) {
  static constexpr std::array<uint64_t, 6> kLow = {0x5555555555555555u, 0x3333333333333333u,
                                                   0x0f0f0f0f0f0f0f0fu, 0x00ff00ff00ff00ffu,
                                                   0x0000ffff0000ffffu, 0x00000000ffffffffu};
  Bits result;
  for (size_t word = 0; word < 4; ++word) result[word] = bits[word ^ (label >> 6)];
  for (unsigned bit = 0; bit < 6; ++bit) {
    if ((label >> bit & 1) == 0) continue;
    const unsigned shift = 1u << bit;
    for (uint64_t& word : result) word = (word & kLow[bit]) << shift | (word >> shift & kLow[bit]);
  }
  return result;
}

void clear(Bits& bits, uint32_t place) { bits[place / 64] &= ~(uint64_t{1} << place % 64); }

// The tokens that are not empty, in the order of their bytes; of equal ones the last.
std::vector<uint32_t> sorted_tokens(const TokenArrays& tokens) {
  struct Key {
    uint64_t first;  // eight bytes
    uint32_t token;
  };
  std::vector<Key> keys;
  keys.reserve(tokens.size());
  for (uint32_t token = 0; token < tokens.size(); ++token) {
    const std::span<const uint8_t> text = tokens[token];
    uint64_t first = 0;
    for (size_t i = 0; i < 8; ++i) first = first << 8 | (i < text.size() ? text[i] : 0);
    if (!text.empty()) keys.push_back({first, token});
  }
  const auto compare = [&](const Key& a, const Key& b) {
    if (a.first != b.first) return a.first < b.first ? -1 : 1;
    const std::span<const uint8_t> left = tokens[a.token], right = tokens[b.token];
    const int order = std::memcmp(left.data(), right.data(), std::min(left.size(), right.size()));
    if (order != 0) return order;
    return left.size() == right.size() ? 0 : left.size() < right.size() ? -1 : 1;
  };
  std::ranges::sort(keys, [&](const Key& a, const Key& b) {
    const int order = compare(a, b);
    return order != 0 ? order < 0 : a.token < b.token;
  });
  std::vector<uint32_t> sorted;
  sorted.reserve(keys.size());
  for (size_t i = 0; i < keys.size(); ++i)
    if (i + 1 == keys.size() || compare(keys[i], keys[i + 1]) != 0) sorted.push_back(keys[i].token);
  return sorted;
}

}  // namespace

class ByteTrie::Builder {
 public:
  Builder(const TokenArrays& tokens, std::vector<uint64_t>& units) : tokens_(tokens), units_(units) {
    tokens_.check(kMostTokens);
    sorted_ = sorted_tokens(tokens_);
    units_.resize(kBlock);  // block 0 stays empty: what has no children has base 0
    blocks_.resize(1);
  }

  // Level by level, so that the nodes that every walk passes lie together; returns the root.
  State build() {
    State root = kNowhere;
    std::vector<Node> level, next;
    if (!sorted_.empty()) level.push_back({0, static_cast<uint32_t>(sorted_.size()), kRoot});
    for (size_t depth = 0; !level.empty(); ++depth) {
      next.clear();
      for (const Node& node : level) {
        const uint32_t base = place_children(node, depth, next);
        if (node.unit == kRoot)
          root = base;
        else
          units_[node.unit] |= base;
      }
      std::swap(level, next);
    }
    return root;
  }

 private:
  static constexpr size_t kBlock = 256;
  static constexpr uint32_t kRoot = 0xffffffff;
  static constexpr size_t kMostUnits = size_t{1} << 32;
  // Blocks that are tried for a node, and how often one may have had no place before it is given up. More of
  // either saves a percent of memory.
  static constexpr size_t kMostOpen = 16;
  static constexpr uint32_t kMostFailures = 64;

  // Some sorted tokens with the same beginning, and the unit of that beginning.
  struct Node {
    uint32_t begin;
    uint32_t end;
    uint32_t unit;
  };
  struct Block {
    Bits free = {~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}};
    Bits free_bases = free;
    uint32_t failures = 0;
  };

  // Makes the units of a node's children, and adds those that have children to `next`; returns the base.
  uint32_t place_children(const Node& node, size_t depth, std::vector<Node>& next) {
    labels_.clear();
    starts_.clear();
    for (uint32_t i = node.begin; i < node.end; ++i) {
      const std::span<const uint8_t> text = tokens_[sorted_[i]];
      if (text.size() == depth) continue;  // the node's own token, the first of all
      if (!labels_.empty() && labels_.back() == text[depth]) continue;
      labels_.push_back(text[depth]);
      starts_.push_back(i);
    }
    if (labels_.empty()) return 0;
    const uint32_t base = find_base();
    starts_.push_back(node.end);
    for (size_t child = 0; child < labels_.size(); ++child) {
      const uint32_t unit = base ^ labels_[child];
      const uint32_t first = sorted_[starts_[child]];
      const bool ends = tokens_.length(first) == depth + 1;
      units_[unit] = (uint64_t{labels_[child]} << 1 | 1) << kUsedShift | (ends ? uint64_t{first} + 1 : 0)
                                                                             << 32;
      if (!ends || starts_[child] + 1 < starts_[child + 1])
        next.push_back({starts_[child], starts_[child + 1], unit});
    }
    return base;
  }

  // A base that no node has, with free units for all labels, which are taken.
  uint32_t find_base() {
    for (size_t i = 0; i < open_.size();) {
      const uint32_t block = open_[i];
      if (const int place = place_in(blocks_[block]); place >= 0)
        return take(block, static_cast<uint32_t>(place));
      // Where not even one child has a place there is none left.
      if (++blocks_[block].failures > kMostFailures || labels_.size() == 1)
        open_.erase(open_.begin() + static_cast<ptrdiff_t>(i));
      else
        ++i;
    }
    if (open_.size() == kMostOpen) open_.erase(open_.begin());
    const auto block = static_cast<uint32_t>(blocks_.size());
    expect(units_.size() + kBlock <= kMostUnits, "the vocabulary is too large");
    blocks_.emplace_back();
    units_.resize(units_.size() + kBlock);
    open_.push_back(block);
    return take(block, static_cast<uint32_t>(place_in(blocks_[block])));
  }

  // The lowest possible base in a block, or -1.
  int place_in(const Block& block) const {
    Bits bases = block.free_bases;
    for (const uint8_t label : labels_) {
      const Bits free = permuted(block.free, label);
      uint64_t any = 0;
      for (size_t word = 0; word < 4; ++word) any |= bases[word] &= free[word];
      if (any == 0) return -1;
    }
    for (size_t word = 0; word < 4; ++word)
      if (bases[word] != 0) return static_cast<int>(64 * word) + std::countr_zero(bases[word]);
    return -1;
  }

  uint32_t take(uint32_t block, uint32_t place) {
    clear(blocks_[block].free_bases, place);
    for (const uint8_t label : labels_) clear(blocks_[block].free, place ^ label);
    return static_cast<uint32_t>(kBlock * block + place);
  }

  const TokenArrays& tokens_;
  std::vector<uint32_t> sorted_;
  std::vector<uint64_t>& units_;
  std::vector<Block> blocks_;
  std::vector<uint32_t> open_;
  std::vector<uint8_t> labels_;   // of the node in work
  std::vector<uint32_t> starts_;  // of its children, among the sorted tokens
};

ByteTrie::ByteTrie(const TokenArrays& tokens) : ByteTrie(tokens, {}) {}

ByteTrie::ByteTrie(const TokenArrays& tokens, std::vector<uint64_t>&& units)
    : root_(Builder(tokens, units).build()), units_(units.size()) {
  std::ranges::copy(units, units_.data());
}

}  // namespace krill::models
