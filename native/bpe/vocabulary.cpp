#include "bpe/vocabulary.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>

namespace krill::bpe {

Vocabulary::Vocabulary(const VocabularyArrays& arrays, bool whole_words, bool byte_level) {
  check(arrays);
  bytes_.assign(arrays.bytes.begin(), arrays.bytes.end());
  offsets_.assign(arrays.offsets.begin(), arrays.offsets.end());
  flags_.assign(arrays.flags.begin(), arrays.flags.end());
  byte_tokens_.fill(kNoToken);
  if (byte_level) collect_byte_tokens();
  if (whole_words) index_words();
}

void Vocabulary::check(const VocabularyArrays& arrays) {
  const auto fail = [](const char* what) { throw std::invalid_argument(what); };
  if (arrays.offsets.empty() || arrays.offsets.size() - 1 != arrays.flags.size())
    fail("there must be one flag for each token, and one offset more");
  if (arrays.flags.size() >= kNoToken || arrays.bytes.size() >= 0xffffffff)
    fail("the vocabulary is too large");
  if (arrays.offsets.front() != 0 || static_cast<uint64_t>(arrays.offsets.back()) != arrays.bytes.size())
    fail("offsets must begin at 0 and end with the bytes");
  for (size_t id = 0; id < arrays.flags.size(); ++id) {
    if (arrays.offsets[id + 1] < arrays.offsets[id]) fail("offsets must never fall");
    if ((arrays.flags[id] & kWord) != 0 && arrays.offsets[id + 1] == arrays.offsets[id])
      fail("a token that stands for a piece of a word is empty");
  }
}

void Vocabulary::collect_byte_tokens() {
  for (uint32_t id = 0; id < size(); ++id) {
    if (!has(id, kWord) || bytes(id).size() != 1) continue;
    uint32_t& token = byte_tokens_[bytes(id).front()];
    if (token != kNoToken) throw std::invalid_argument("two tokens are the same byte");
    token = id;
  }
  covers_all_bytes_ = std::ranges::find(byte_tokens_, kNoToken) == byte_tokens_.end();
}

void Vocabulary::index_words() {
  words_.assign(std::bit_ceil(size() + size() / 2 + 2), kNoToken);
  for (uint32_t id = 0; id < size(); ++id) {
    if (!has(id, kWord)) continue;
    const std::span<const uint8_t> word = bytes(id);
    longest_ = std::max(longest_, word.size());
    const uint64_t hash = hash_word(word.data(), word.size());
    size_t slot = hash & (words_.size() - 1);
    while (static_cast<uint32_t>(words_[slot]) != kNoToken) slot = (slot + 1) & (words_.size() - 1);
    words_[slot] = hash >> 32 << 32 | id;
  }
}

uint32_t Vocabulary::find_hashed(const uint8_t* word, size_t size, uint64_t hash) const {
  if (size > longest_) return kNoToken;
  for (size_t slot = hash & (words_.size() - 1);; slot = (slot + 1) & (words_.size() - 1)) {
    const auto id = static_cast<uint32_t>(words_[slot]);
    if (id == kNoToken) return kNoToken;
    if (words_[slot] >> 32 != hash >> 32) continue;
    const std::span<const uint8_t> found = bytes(id);
    if (found.size() == size && std::memcmp(found.data(), word, size) == 0) return id;
  }
}

}  // namespace krill::bpe
