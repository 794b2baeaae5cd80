// The large parts of a tokenizer.json, read block by block: vocabulary, merges, added tokens.
//
// In: the file in blocks, cut anywhere. Out: these parts in flat arrays, in the file's order, and the rest of
// the JSON as text, in which they are empty. Held in memory: the texts of the tokens, 8 bytes for each merge,
// 8 to 16 for each entry of the vocabulary, and the rest up to a limit: 30 MB for Gemma 3, whose file has 33.
//
// Values are those that Hugging Face's library reads: of keys that occur twice the last counts, numbers are
// read as `serde_json` reads them. What it refuses is refused, as far as it concerns these parts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "growing_buffer.hpp"
#include "tokenizer/json_lexer.hpp"
#include "tokenizer/token_texts.hpp"

namespace krill::tokenizer {

enum AddedFlag : uint8_t { kSingleWord = 1, kLstrip = 2, kRstrip = 4, kNormalized = 8, kSpecialToken = 16 };

// Quoted for an error, and cut if it is long.
std::string quoted(std::span<const uint8_t> text);

class TokenizerFile final : private JsonEvents {
 public:
  // `most_rest` bytes of JSON may stand beside the large parts.
  explicit TokenizerFile(size_t most_rest) : lexer_(*this, most_rest) {}
  TokenizerFile(const TokenizerFile&) = delete;
  TokenizerFile& operator=(const TokenizerFile&) = delete;

  // Both throw std::invalid_argument with what is wrong.
  void feed(std::span<const uint8_t> block) { lexer_.feed(block); }
  void finish();

  // The JSON with the large parts empty; it may still be invalid.
  const std::string& rest() const { return lexer_.kept(); }

  TokenTexts tokens;             // of the vocabulary
  GrowingBuffer<uint32_t> ids;   // of the tokens, if the vocabulary is an object
  GrowingBuffer<double> scores;  // if it is a list
  bool is_scored = false;        // whether it is a list

  TokenTexts merges;               // both tokens of each joined
  GrowingBuffer<uint32_t> splits;  // the length of the first of them
  std::string continuation;        // continuing_subword_prefix, which the joined token has once

  TokenTexts added;
  std::vector<uint8_t> added_flags;

 private:
  enum class Part : uint8_t { kRest, kVocabulary, kScores, kMerges, kAdded };
  // What comes next in a part.
  enum class Step : uint8_t { kFirst, kNext, kComma, kColon, kValue, kLeft, kMiddle, kRight, kEnd, kNested };
  enum class Merges : uint8_t { kUnknown, kLines, kPairs };

  void punctuation(char character) override;
  void string(std::span<const uint8_t> text) override;
  void literal(std::string_view text) override;

  void rest_punctuation(char character);
  void key_begins();
  Part part_here(char bracket) const;
  void begin_part(Part part);
  void clear_vocabulary();
  void clear_merges();

  // Goes on to `next` if the punctuation is the one that has to follow `now`.
  bool follows(char character, char expected, Step now, Step next);
  void vocabulary_punctuation(char character);
  void scores_punctuation(char character);
  void merges_punctuation(char character);
  void added_punctuation(char character);
  bool ends_list(char character, char bracket);
  void merge_line(std::span<const uint8_t> text);
  void check_merges(Merges written);
  void added_string(std::span<const uint8_t> text);
  void added_literal(std::string_view text);
  void begin_added();
  void end_added();
  void set_field(unsigned field);
  [[noreturn]] void fail() const;

  JsonLexer lexer_;
  Part part_ = Part::kRest;
  Step step_ = Step::kFirst;

  // Of the rest.
  std::string open_;                 // brackets
  std::array<std::string, 3> keys_;  // by depth
  std::string last_string_;
  bool after_colon_ = false;

  Merges merges_written_ = Merges::kUnknown;
  // Of the added token in work: the field whose value comes, which fields there were, and nested values.
  unsigned field_ = 0;
  unsigned fields_ = 0;
  uint8_t flags_ = 0;
  size_t nested_ = 0;
};

}  // namespace krill::tokenizer
