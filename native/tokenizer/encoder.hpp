// Documents to token ids, as Hugging Face's `tokenizers` gives them, from any number of threads.
//
// In: a column of text. Out: all ids one after the other and each document's length. Held in memory: the
// model, the normalizer and the added tokens, shared by all; a cache of words for each worker, of the size it
// is given, and the longest section of a document as it was normalised. Neither the cache nor the number of
// workers changes the ids.
//
// A document is cut into sections by added tokens; each is normalised, cut by those added tokens that are
// found in normalised text, rewritten and cut into words by the pre-tokenizer, and encoded word by word.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "bpe/vocabulary.hpp"
#include "buffer.hpp"
#include "growing_buffer.hpp"
#include "normalize/normalizer.hpp"
#include "text/code_points.hpp"
#include "text/column.hpp"
#include "tokenizer/added_tokens.hpp"
#include "tokenizer/model.hpp"
#include "tokenizer/pretokenizer.hpp"
#include "tokenizer/word_encoder.hpp"

namespace krill::tokenizer {

// What comes between a document and its words.
struct Steps {
  normalize::NormalizerPtr normalizer;  // may be null
  PreTokenizerPtr pre_tokenizer;        // null: each section is a word
};

// What a tokenizer consists of.
struct EncoderParts {
  std::shared_ptr<const Model> model;
  // The texts of all ids, for offsets and decoding; as bytes if `byte_level`.
  std::shared_ptr<const bpe::Vocabulary> tokens;
  bool byte_level = true;
  Steps steps;
  // Of a model that reads spaces as U+2581: the steps that give the same words, but for spaces in the place
  // of it. Only without added tokens in normalised text.
  std::optional<Steps> unmarked;
  std::vector<AddedToken> added;
  std::vector<uint32_t> prefix;  // ids before each document
  std::vector<uint32_t> suffix;  // and after it
  // How Hugging Face's byte-level post-processor treats offsets: whether it leaves spaces out of them, but
  // one before the first word if `keeps_first_space`.
  bool trims_offsets = false;
  bool keeps_first_space = false;
};

struct EncoderWorkers {
  size_t count = 1;        // more threads than workers take turns
  size_t cache_bytes = 0;  // of each
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

// Spans in the bytes of all documents together, in order; they don't overlap.
struct Spans {
  std::span<const int64_t> begins;
  std::span<const int64_t> ends;

  // The number of a span that shares a byte with [begin, end); as many as there are, if none does.
  size_t find(int64_t begin, int64_t end) const;
};

// Where added tokens are not found: an id of `token_levels` n is not in a span of level n or less; 0 always
// is.
struct GuardedSpans {
  Spans spans;
  std::span<const int64_t> levels;
  std::span<const uint8_t> token_levels;

  bool forbids(int64_t begin, int64_t end, uint32_t id) const;
};

template <class Id>
struct SpannedBatch {
  GrowingBuffer<Id> ids;
  GrowingBuffer<uint8_t> in_span;  // 1 for an id that shares a byte with a span, but for a document's first
  Buffer<uint32_t> lengths;
  Buffer<uint8_t> imitated;  // 1 for a document of whose text the model made a forbidden token all the same
};

// Texts that are not a column.
class Strings {
 public:
  virtual ~Strings() = default;
  virtual size_t rows() const = 0;
  virtual size_t characters() const = 0;  // of all rows
  // Asked for in order, once each; valid until the next one is.
  virtual text::Utf8 at(size_t row) = 0;
};

// The largest id that can come out.
uint32_t largest_id(const EncoderParts& parts);

template <class Id>
class Encoder {
 public:
  // Throws std::invalid_argument for inconsistent arguments. All ids must fit Id.
  Encoder(EncoderParts parts, EncoderWorkers workers);
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;
  ~Encoder();

  // Of each document: the prefix, its tokens, the suffix, and `eos` if there is one.
  EncodedBatch<Id> encode(const text::TextColumn& documents, std::optional<uint32_t> eos);
  // The same for strings, without `eos`.
  EncodedBatch<uint32_t> encode(Strings& documents);
  // One document with the offsets of its tokens; those of prefix and suffix are 0.
  OffsetTokens<Id> encode_offsets(const uint8_t* text, size_t size);

  // Documents without prefix and suffix; which of their ids are in `spans`.
  SpannedBatch<Id> encode_spans(const text::TextColumn& documents, const Spans& spans,
                                const GuardedSpans& guarded);

  const bpe::Vocabulary& tokens() const { return *parts_.tokens; }
  // Of all calls that have ended.
  WordStatistics statistics();
  // Gives back what workers without a call hold: caches and scratch. Later calls begin with new ones.
  void release();

 private:
  struct Worker;
  class Lease;
  struct SpannedDocument;

  size_t likely_ids(size_t rows, size_t bytes) const;
  // How many bytes of what a section became stand for its first character; 0 where that does not matter.
  size_t beginning(Worker& worker, const Steps& steps, const uint8_t* text, size_t size) const;
  template <class Out, class DocumentAt>
  EncodedBatch<Out> encode_rows(Worker& worker, size_t rows, GrowingBuffer<Out> ids,
                                std::optional<uint32_t> eos, DocumentAt&& document_at) const;
  template <class Out>
  void encode_document(Worker& worker, const text::Utf8& text, GrowingBuffer<Out>& ids) const;
  // Normalises `worker.section`, and calls use(begin, end, id) for each of its parts; plain
  // text is then in `worker.part`, as the pre-tokenizer rewrites it.
  template <class Use, class IsText = AddedTokens::Nowhere>
  void split_section(Worker& worker, bool is_start, Use&& use, const IsText& is_text = {}) const;

  void encode_spanned(Worker& worker, SpannedDocument& document, GrowingBuffer<TokenRange>& ranges) const;

  EncoderParts parts_;
  AddedTokens added_;
  EncoderWorkers workers_;
  std::mutex long_words_;

  std::mutex pool_lock_;
  std::condition_variable given_back_;
  std::vector<std::unique_ptr<Worker>> idle_;
  size_t made_ = 0;
  WordStatistics statistics_;
};

}  // namespace krill::tokenizer
