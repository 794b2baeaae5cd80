// Byte-pair encoding of one word: the lowest rank first, and among equals the leftmost, until no pair merges.
//
// In: a word's bytes. Out: its tokens. Held in memory: nothing for words of up to kShort bytes; for longer
// ones kScratchPerByte for each byte of the longest so far. A short word is searched from end to end for the
// next merge. A long one keeps the least rank of each block in a tree, so that a word of megabytes costs n
// log n: every merge touches a few blocks and the paths above them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "bpe/vocabulary.hpp"
#include "bpe/vocabulary_merges.hpp"
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

  uint32_t* ids() { return ids_->data(); }
  int32_t* ranks() { return ranks_->data(); }
  // The last position of a symbol at its first, and its first at its last.
  uint32_t* ends() { return ends_->data(); }

 private:
  static constexpr size_t kBlock = 32;

  int32_t block_least(size_t block) const;

  // Large ones are the system's pages and not the heap's, which would keep them.
  std::optional<Buffer<uint32_t>> ids_;
  std::optional<Buffer<int32_t>> ranks_;  // filled up to whole blocks
  std::optional<Buffer<uint32_t>> ends_;
  std::optional<Buffer<int32_t>> tree_;  // node 1 is the root, the leaves are blocks
  size_t blocks_ = 0;
  size_t leaves_ = 0;
};

class WordMerger {
 public:
  static constexpr size_t kShort = 30;
  static constexpr size_t kScratchPerByte = 13;

  WordMerger(const Vocabulary& vocabulary, const MergeTable& merges)
      : vocabulary_(vocabulary), merges_(merges) {}

  // Writes at most `size` ids and returns how many. A byte without a token is left out, and its
  // neighbours become adjacent, as in Hugging Face's library.
  template <class Id>
  size_t merge(const uint8_t* word, size_t size, Id* out, MergeScratch& scratch) const {
    return size <= kShort ? merge_short(word, size, out) : merge_long(word, size, out, scratch);
  }

  // For words of up to kShort bytes.
  template <class Id>
  size_t merge_short(const uint8_t* word, size_t size, Id* out) const;
  // For words of any length.
  template <class Id>
  size_t merge_long(const uint8_t* word, size_t size, Id* out, MergeScratch& scratch) const;

 private:
  size_t begin_long(const uint8_t* word, size_t size, MergeScratch& scratch) const;
  void merge_symbols(size_t count, MergeScratch& scratch) const;

  const Vocabulary& vocabulary_;
  const MergeTable& merges_;
};

}  // namespace krill::bpe
