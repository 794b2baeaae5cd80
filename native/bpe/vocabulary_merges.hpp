// Which pairs of tokens merge, in which order, and into what.
//
// In: merges by rank, checked against the vocabulary. Out: the rank of a pair, and the token of a rank. Held in
// memory: about 14 bytes a merge, and 256 KiB for pairs of bytes, with which every word begins.
//
// Whether a pair merges can't be foreseen, so looking one up must not branch on it: hashing is perfect (each group
// of pairs has a displacement that sends all of them to slots of their own), and a slot holds pair and rank in one
// machine word (hence the limits). A probe of several slots in turn took twice the time of the whole merge.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "bpe/vocabulary.hpp"

namespace krill {

class MergeTable {
 public:
  static constexpr unsigned kIdBits = 20;
  static constexpr unsigned kRankBits = 24;
  static constexpr std::size_t kMaxMerges = (std::size_t{1} << kRankBits) - 1;
  // An id with which nothing merges.
  static constexpr std::uint32_t kNobody = (std::uint32_t{1} << kIdBits) - 1;
  static constexpr std::size_t kMaxIds = kNobody;
  // Greater than every rank.
  static constexpr std::int32_t kNever = std::int32_t{1} << kRankBits;

  // `merges` holds left, right and new id of each; of a pair that occurs twice the last counts, as in Hugging
  // Face's map. Merges that don't fit the vocabulary throw std::invalid_argument.
  MergeTable(const Vocabulary& vocabulary, std::span<const std::uint32_t> merges);

  // kNever if the pair doesn't merge.
  std::int32_t rank(std::uint32_t left, std::uint32_t right) const {
    const std::uint64_t key = pair_key(left, right);
    const std::uint64_t hash = key * kSpread;
    const std::uint64_t slot = slots_[slot_of(hash, displacements_[group_of(hash)])];
    return slot >> kRankBits == key ? static_cast<std::int32_t>(slot & kMaxMerges) : kNever;
  }

  std::int32_t byte_rank(std::uint8_t left, std::uint8_t right) const {
    return byte_ranks_[std::size_t{left} << 8 | right];
  }

  std::uint32_t token(std::int32_t rank) const { return tokens_[static_cast<std::size_t>(rank)]; }

 private:
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};
  static constexpr std::uint64_t kSpread = 0x9e3779b97f4a7c15u;

  using Pairs = std::vector<std::uint64_t>;  // as slots hold them

  static std::uint64_t pair_key(std::uint32_t left, std::uint32_t right) {
    return std::uint64_t{left} << kIdBits | right;
  }
  std::size_t group_of(std::uint64_t hash) const { return below(hash, displacements_.size()); }
  std::size_t slot_of(std::uint64_t hash, std::uint32_t displacement) const {
    return below((hash ^ displacement * 0xd6e8feb86659fd93u) * 0xff51afd7ed558ccdu, slots_.size());
  }
  // From the hash's highest bits.
  static std::size_t below(std::uint64_t hash, std::size_t limit) { return ((hash >> 32) * limit) >> 32; }

  void place(const Pairs& pairs);
  bool place_group(std::span<const std::uint64_t> group);
  void fill_byte_ranks(const Vocabulary& vocabulary, const Pairs& pairs);

  std::vector<std::uint64_t> slots_;
  std::vector<std::uint16_t> displacements_;
  std::vector<std::uint32_t> tokens_;
  std::vector<std::int32_t> byte_ranks_;
};

}  // namespace krill
