// Documents to token ids, as Hugging Face's byte-level BPE gives them, from any number of threads.
//
// In: a column of text. Out: all ids one after the other and each document's length. Held in memory: the
// vocabulary, its merges and added tokens, shared by all; a cache of words for each worker, of the size it is
// given; while a very long word is merged, 13 times its bytes, once for all workers.
// Neither the cache nor the number of workers changes the ids.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "bpe/bpe_model.hpp"
#include "bpe/encoder_added_tokens.hpp"
#include "bpe/vocabulary.hpp"
#include "buffer.hpp"
#include "growing_buffer.hpp"
#include "text/column.hpp"
#include "text/scanner.hpp"
#include "tokenizer/word_encoder.hpp"

namespace krill::bpe {

struct EncoderOptions {
  text::Pattern pattern;
  bool ignore_merges = false;
  std::vector<uint32_t> prefix;  // ids before each document
  std::vector<uint32_t> suffix;  // and after it
  // How Hugging Face's byte-level post-processor treats offsets: whether it leaves spaces out of them, but
  // one before the first word if `keeps_first_space`.
  bool trims_offsets = false;
  bool keeps_first_space = false;
  size_t cache_bytes = 0;  // of each worker
  size_t workers = 1;      // more threads than workers take turns
};

template <class Id>
struct EncodedBatch {
  GrowingBuffer<Id> ids;
  Buffer<uint32_t> lengths;
};

template <class Id>
struct OffsetTokens {
  GrowingBuffer<Id> ids;
  GrowingBuffer<uint32_t> offsets;  // begin and end of each, in characters
};

template <class Id>
class Encoder {
 public:
  // Throws std::invalid_argument for inconsistent arguments. All ids must fit Id.
  Encoder(const VocabularyArrays& vocabulary, std::span<const uint32_t> merges,
          const std::vector<AddedToken>& added, EncoderOptions options);

  // Of each document: the prefix, its tokens, the suffix, and `eos` if there is one.
  EncodedBatch<Id> encode(const text::TextColumn& documents, std::optional<uint32_t> eos);
  // One document with the offsets of its tokens; those of prefix and suffix are 0.
  OffsetTokens<Id> encode_offsets(const uint8_t* text, size_t size);

  const Vocabulary& vocabulary() const { return model_.vocabulary(); }
  // Of all calls that have ended.
  tokenizer::WordStatistics statistics();

 private:
  class Lease;

  size_t likely_ids(size_t rows, size_t bytes) const;
  void encode_document(tokenizer::WordEncoder<Id>& words, const uint8_t* text, size_t size,
                       GrowingBuffer<Id>& ids) const;

  BpeModel model_;
  AddedTokens added_;
  EncoderOptions options_;
  std::mutex long_words_;

  std::mutex pool_lock_;
  std::condition_variable given_back_;
  std::vector<std::unique_ptr<tokenizer::WordEncoder<Id>>> idle_;
  size_t made_ = 0;
  tokenizer::WordStatistics statistics_;
};

}  // namespace krill::bpe
