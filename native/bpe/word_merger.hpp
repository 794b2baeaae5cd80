// Byte-pair encoding of words: the lowest rank first, and among equals the leftmost, until no pair merges.
//
// In: the symbols of words. Out: their tokens. Held in memory: nothing for words of up to kShort symbols; for
// longer ones kScratchPerSymbol for each symbol of the longest so far. A short word is searched from end to
// end for the next merge, and several words take turns, so that one's look-ups are waited for while others
// are merged. A long one keeps the least rank of each block in a tree, so that a word of megabytes costs n
// log n: every merge touches a few blocks and the paths above them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "bpe/merge_table.hpp"
#include "buffer.hpp"

namespace krill::bpe {

// Scratch for a long word; each thread has its own.
class MergeScratch {
 public:
  // Makes room for `size` symbols, none of them merged.
  void prepare(size_t size);
  // Gives its memory back.
  void release();

  // The least rank of all.
  int32_t least() const { return (*tree_)[1]; }
  // The first symbol with that rank.
  size_t first_least() const;
  void set_rank(size_t symbol, int32_t rank);
  // After ranks were written through `ranks` directly.
  void build();

  int32_t* ranks() { return ranks_->data(); }
  // The last position of a symbol at its first, and its first at its last.
  uint32_t* ends() { return ends_->data(); }

 private:
  static constexpr size_t kBlock = 32;

  int32_t block_least(size_t block) const;

  // Large ones are the system's pages and not the heap's, which would keep them.
  std::optional<Buffer<int32_t>> ranks_;  // filled up to whole blocks
  std::optional<Buffer<uint32_t>> ends_;
  std::optional<Buffer<int32_t>> tree_;  // node 1 is the root, the leaves are blocks
  size_t blocks_ = 0;
  size_t leaves_ = 0;
};

// The symbols of a word, which become its tokens in place.
struct SymbolRun {
  uint32_t* ids;
  size_t count;
};

class WordMerger {
 public:
  static constexpr size_t kShort = 62;
  static constexpr size_t kScratchPerSymbol = 9;

  explicit WordMerger(const MergeTable& merges) : merges_(merges) {}

  // Merges symbols in place and returns how many are left. `lengths` is null, or has one for each symbol, and
  // those of symbols that are merged are added up.
  size_t merge(uint32_t* ids, size_t count, uint32_t* lengths, MergeScratch& scratch) const {
    return count <= kShort ? merge_short(ids, count, lengths) : merge_long(ids, count, lengths, scratch);
  }

  // For up to kShort symbols.
  size_t merge_short(uint32_t* ids, size_t count, uint32_t* lengths) const;
  // For any number.
  size_t merge_long(uint32_t* ids, size_t count, uint32_t* lengths, MergeScratch& scratch) const;
  // Several words of up to kShort symbols each.
  void merge_batch(std::span<SymbolRun> words) const;

 private:
  const MergeTable& merges_;
};

}  // namespace krill::bpe
