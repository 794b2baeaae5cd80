// The tokens of a vocabulary: bytes by id, ids of single bytes where it is byte-level, and ids of whole
// words.
//
// In: flat arrays from outside, checked before anything is read through them. Out: look-ups. Held in memory:
// each token's bytes once, 5 bytes an id beside them, and with `whole_words` a table of 16 bytes a token.
// Nothing changes after construction, so threads may share one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "bpe/word_hash.hpp"

namespace krill::bpe {

// Flags of an id. An id without kWord never results from encoding a word: it is unused, or for decoding only.
enum TokenFlag : uint8_t {
  kPresent = 1,  // the id is in use
  kWord = 2,     // its bytes are a piece of a word
  kSpecial = 4,  // decoding may skip it
};

struct VocabularyArrays {
  std::span<const uint8_t> bytes;
  std::span<const int64_t> offsets;  // one more than there are ids
  std::span<const uint8_t> flags;    // one for each id
};

class Vocabulary {
 public:
  static constexpr uint32_t kNoToken = 0xffffffff;

  // Throws std::invalid_argument for inconsistent arrays. `find` needs `whole_words`; `byte_token` and
  // `covers_all_bytes` need `byte_level`, where tokens are any bytes and not text.
  Vocabulary(const VocabularyArrays& arrays, bool whole_words, bool byte_level = true);

  size_t size() const { return flags_.size(); }
  bool has(uint32_t id, TokenFlag flag) const { return id < size() && (flags_[id] & flag) != 0; }
  std::span<const uint8_t> bytes(uint32_t id) const {
    return {bytes_.data() + offsets_[id], offsets_[id + 1] - offsets_[id]};
  }

  // The token that is this one byte, or kNoToken.
  uint32_t byte_token(uint8_t byte) const { return byte_tokens_[byte]; }
  // Whether every byte has a token, so that no text is dropped.
  bool covers_all_bytes() const { return covers_all_bytes_; }

  // The token that is this whole word, or kNoToken.
  uint32_t find(const uint8_t* word, size_t size) const {
    return size > longest_ ? kNoToken : find_hashed(word, size, hash_word(word, size));
  }
  // The same in two steps, for several words: with what the first gives, between which the table arrives.
  uint64_t look_ahead(const uint8_t* word, size_t size) const {
    if (size > longest_) return 0;
    const uint64_t hash = hash_word(word, size);
    __builtin_prefetch(words_.data() + (hash & (words_.size() - 1)));
    return hash;
  }
  uint32_t find_hashed(const uint8_t* word, size_t size, uint64_t hash) const;

  size_t longest() const { return longest_; }
  size_t held_bytes() const {
    return bytes_.size() + flags_.size() + 4 * offsets_.size() + 8 * words_.size();
  }

 private:
  static void check(const VocabularyArrays& arrays);
  void collect_byte_tokens();
  void index_words();

  std::vector<uint8_t> bytes_;
  std::vector<uint32_t> offsets_;
  std::vector<uint8_t> flags_;
  std::array<uint32_t, 256> byte_tokens_{};
  bool covers_all_bytes_ = false;
  size_t longest_ = 0;  // bytes of a word's token, with `whole_words`
  // Id and the higher half of the hash; open addressing, two thirds full at most; empty without
  // `whole_words`.
  std::vector<uint64_t> words_;
};

}  // namespace krill::bpe
