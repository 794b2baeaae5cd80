// From the parts of a tokenizer.json to the arrays that models are made of.
//
// In: a TokenizerFile. Out: tokens by id, with flags; scores; merges as ids; added tokens with the ids that
// the library gives them. Held in memory: the file's parts, a hash table of 8 to 16 bytes for each token, and
// the arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "growing_buffer.hpp"
#include "tokenizer/token_index.hpp"
#include "tokenizer/tokenizer_file.hpp"

namespace krill::tokenizer {

struct NumberedToken {
  uint32_t place;  // among the file's added tokens
  uint32_t id;
  uint8_t flags;
};

class VocabularyTables {
 public:
  // Ids above are refused: tables by id would take more than the file lets expect.
  static constexpr uint32_t kMostIds = 1u << 22;

  // With `byte_level`, tokens become the bytes that their letters stand for. Throws std::invalid_argument
  // with what is wrong with the file, which must outlive this.
  VocabularyTables(const TokenizerFile& file, bool byte_level);

  // The id of a text, as an added token or in the vocabulary.
  std::optional<uint32_t> find(std::span<const uint8_t> text) const;
  // How many tokens the vocabulary has.
  size_t entries() const { return entries_; }
  // An added token that gets the id of another token: its text, quoted, or nothing.
  const std::string& clash() const { return clash_; }
  // By id. Those of one text are one: the last counts, but it is special if any of them is.
  const std::vector<NumberedToken>& added() const { return added_; }

  // By id, with bpe::TokenFlag. A text that no word can hold decodes to itself.
  GrowingBuffer<uint8_t> tokens;
  GrowingBuffer<int64_t> offsets;
  GrowingBuffer<uint8_t> flags;
  GrowingBuffer<uint32_t>
      merges;  // left, right and new id of each, by rank; none of tokens that no word can hold

 private:
  void index_tokens();
  void number_added();
  void write_tokens(bool byte_level);
  void resolve_merges();
  uint32_t id_of(uint32_t entry) const { return file_.is_scored ? entry : file_.ids[entry]; }
  uint32_t merge_token(std::span<const uint8_t> text, size_t merge) const;
  bool is_word(uint32_t id) const;

  const TokenizerFile& file_;
  TokenIndex index_;
  size_t entries_ = 0;
  std::vector<uint32_t> by_id_;  // entries; those of added tokens are numbered behind them
  std::unordered_map<std::string_view, uint32_t> added_ids_;
  std::vector<NumberedToken> added_;
  std::string clash_;
};

}  // namespace krill::tokenizer
