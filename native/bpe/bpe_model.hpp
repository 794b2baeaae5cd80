// Byte-pair encoding of every kind that Hugging Face's `BPE` has: byte-level (symbols are bytes) or over
// characters (SentencePiece style), with byte fallback, an unknown token, affixes of symbols, and words that
// are looked up whole (`ignore_merges`).
//
// In: words. Out: ids. Held in memory: the vocabulary, its merges (16 bytes each), and where words may be
// cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "bpe/merge_table.hpp"
#include "bpe/piece_cuts.hpp"
#include "bpe/symbols.hpp"
#include "bpe/vocabulary.hpp"
#include "bpe/word_merger.hpp"
#include "tokenizer/model.hpp"

namespace krill::bpe {

struct BpeOptions {
  SymbolOptions symbols;
  bool ignore_merges = false;  // a word that is a token is encoded as it, whatever the merges say
};

class BpeModel final : public tokenizer::Model {
 public:
  // Throws std::invalid_argument for inconsistent arguments.
  BpeModel(const VocabularyArrays& vocabulary, std::span<const uint32_t> merges, BpeOptions options);

  std::unique_ptr<tokenizer::ModelScratch> make_scratch() const override;
  size_t encode(const uint8_t* word, size_t size, uint32_t* ids, uint32_t* lengths,
                tokenizer::ModelScratch& scratch) const override;
  void encode_batch(std::span<tokenizer::BatchWord> words, tokenizer::ModelScratch& scratch) const override;
  uint32_t largest_id() const override;
  const tokenizer::PieceCutter* pieces() const override { return cuts_ ? &*cuts_ : nullptr; }
  bool is_whole(const uint8_t* word, size_t size) const override;
  bool pieces_are_words() const override { return !ignore_merges_; }
  bool reads_spaces_as_marks() const override { return symbols_.reads_spaces_as_marks(); }
  uint32_t length_of(uint32_t id) const override;
  bool counts_letters() const override { return symbols_.counts_letters(); }

  const Vocabulary& vocabulary() const { return vocabulary_; }
  size_t held_bytes() const;

 private:
  class Scratch;

  uint32_t whole_token(const uint8_t* word, size_t size) const {
    return ignore_merges_ ? vocabulary_.find(word, size) : kNoToken;
  }
  bool is_unmerged(uint32_t token) const { return (unmerged_[token / 64] >> token % 64 & 1) != 0; }
  void find_unmerged();

  bool ignore_merges_;
  bool has_lengths_;  // whether a token always covers its own bytes, unless it is one of `stand_ins_`
  std::vector<uint32_t> stand_ins_;  // for characters without a token, in order
  Vocabulary vocabulary_;
  MergeTable merges_;
  Symbols symbols_;
  WordMerger merger_;
  std::optional<PieceCuts> cuts_;
  // With ignore_merges, a bit for each token that its own bytes are not merged into: as a word they are this
  // token, as a piece of a word they are not. How long the longest of them is.
  std::vector<uint64_t> unmerged_;
  size_t longest_unmerged_ = 0;
};

}  // namespace krill::bpe
