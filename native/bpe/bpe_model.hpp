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

  const Vocabulary& vocabulary() const { return vocabulary_; }
  // Whether lengths count the letters that represent bytes, in UTF-8, since bytes may be left out.
  bool counts_letters() const { return symbols_.counts_letters(); }
  size_t held_bytes() const;

 private:
  class Scratch;

  uint32_t whole_token(const uint8_t* word, size_t size) const {
    return ignore_merges_ ? vocabulary_.find(word, size) : kNoToken;
  }
  bool is_unmerged(uint32_t token) const { return (unmerged_[token / 64] >> token % 64 & 1) != 0; }
  void find_unmerged();

  bool ignore_merges_;
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
