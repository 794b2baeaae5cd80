// What every model of a tokenizer does: one word to its tokens. The cache of words stands in front of it, so
// it is asked only for words that were not seen lately.
//
// In: a word, as the pre-tokenizer cut it. Out: its ids and, on request, how many of its bytes each of them
// stands for. Held in memory: nothing that changes; what a call needs besides is the caller's scratch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace krill::tokenizer {

// Buffers of one worker, made by the model that uses them and grown as needed.
class ModelScratch {
 public:
  ModelScratch() = default;
  ModelScratch(const ModelScratch&) = delete;
  ModelScratch& operator=(const ModelScratch&) = delete;
  virtual ~ModelScratch() = default;

  // Gives back what a very long word needed.
  virtual void release() {}
};

// A word of a batch, or a piece of a word (see PieceCutter).
struct BatchWord {
  const uint8_t* data;
  uint32_t size;
  bool is_piece;
  bool may_be_cached;  // set by the model: whether these bytes give the same ids as word and as piece
  uint32_t count;      // set by the model: how many ids
  uint32_t* ids;       // written by the model; there is room for `size`
};

// Cuts inside a word that change nothing: the word's ids are those of its pieces, one after the other.
class PieceCutter {
 public:
  PieceCutter() = default;
  PieceCutter(const PieceCutter&) = delete;
  PieceCutter& operator=(const PieceCutter&) = delete;
  virtual ~PieceCutter() = default;

  // Writes the ends (offsets from `text`) of successive pieces of the word that ends at `size`, from `from`
  // on, at least one and up to `capacity`, and returns how many.
  virtual size_t cut(const uint8_t* text, size_t size, size_t from, uint32_t* ends,
                     size_t capacity) const = 0;

  // Whether words may be whole texts, which `cut_runs` is for: the same with fewer cuts, at what most
  // pre-tokenizers take for the ends of words, so that pieces repeat and are not many. `capacity` is at least
  // kRunRoom.
  virtual bool has_runs() const { return false; }
  static constexpr size_t kRunRoom = 128;
  virtual size_t cut_runs(const uint8_t*, size_t size, size_t, uint32_t* ends, size_t) const {
    ends[0] = static_cast<uint32_t>(size);
    return 1;
  }
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

  // The same for several words, without lengths.
  virtual void encode_batch(std::span<BatchWord> words, ModelScratch& scratch) const {
    for (BatchWord& word : words) {
      word.count = static_cast<uint32_t>(encode(word.data, word.size, word.ids, nullptr, scratch));
      word.may_be_cached = true;
    }
  }

  // The largest id that may come out.
  virtual uint32_t largest_id() const = 0;

  // How many bytes of its word a token always covers; 0 if that depends on the word.
  virtual uint32_t length_of(uint32_t) const { return 0; }
  // Whether lengths count the letters that represent bytes, in UTF-8: a byte-level model that leaves bytes
  // out, whose later lengths are out of step with its bytes, as the library's are.
  virtual bool counts_letters() const { return false; }

  // The unknown token if the library knows it by the text that it stands for; else none.
  virtual uint32_t known_by_its_text() const { return kNoToken; }

  // Null for a model whose words have to stay whole.
  virtual const PieceCutter* pieces() const { return nullptr; }
  // Whether this word has to stay whole although its model has a piece cutter.
  virtual bool is_whole(const uint8_t*, size_t) const { return false; }
  // Whether words may have spaces in the place of U+2581, and get the same ids; `encode` gives their lengths
  // for words without spaces alone.
  virtual bool reads_spaces_as_marks() const { return false; }
  // Whether a piece has the ids of a word of the same bytes.
  virtual bool pieces_are_words() const { return true; }
};

}  // namespace krill::tokenizer
