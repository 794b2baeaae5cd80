// What every model of a tokenizer does: one word to its tokens. The cache of words stands in front of it, so
// it is asked only for words that were not seen lately.
//
// In: a word, as the pre-tokenizer cut it. Out: its ids and, on request, how many of its bytes each of them
// stands for. Held in memory: nothing that changes; what a call needs besides is the caller's scratch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace krill::tokenizer {

// Buffers of one worker, made by the model that uses them and grown as needed.
class ModelScratch {
 public:
  ModelScratch() = default;
  ModelScratch(const ModelScratch&) = delete;
  ModelScratch& operator=(const ModelScratch&) = delete;
  virtual ~ModelScratch() = default;
};

class Model {
 public:
  static constexpr uint32_t kNoToken = 0xffffffff;

  Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  virtual ~Model() = default;

  virtual std::unique_ptr<ModelScratch> make_scratch() const = 0;

  // Writes the ids of a word, which is not empty, and returns how many: at most as many as it has bytes.
  // `lengths` is null, or gets for each id the bytes of the word that it covers; their begin is the end of
  // the one before. 0 means the same bytes as the id before: Unigram's byte fallback gives all tokens of an
  // unknown text the whole of it. Throws std::runtime_error for a word that the library refuses too (no
  // unknown token).
  virtual size_t encode(const uint8_t* word, size_t size, uint32_t* ids, uint32_t* lengths,
                        ModelScratch& scratch) const = 0;

  // The largest id that may come out.
  virtual uint32_t largest_id() const = 0;
};

}  // namespace krill::tokenizer
