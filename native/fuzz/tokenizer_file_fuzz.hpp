// Drives the reader of tokenizer.json with noise inside of each of its parts, and aborts where blocks of
// another size give another result, or where the arrays that it makes are not consistent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "bpe/vocabulary.hpp"
#include "fuzz/kernels_fuzz.hpp"
#include "tokenizer/json_number.hpp"
#include "tokenizer/tokenizer_file.hpp"
#include "tokenizer/vocabulary_tables.hpp"

namespace krill::fuzz {

struct ReadTokenizer {
  std::string rest;
  std::vector<std::string> tokens;
  std::vector<uint32_t> merges;
  std::string error;
};

inline void check_tables(const tokenizer::VocabularyTables& tables, const tokenizer::TokenizerFile& file) {
  const size_t ids = tables.flags.size();
  expect(tables.offsets.size() == ids + 1, "tokenizer file: as many offsets as ids");
  for (size_t id = 0; id < ids; ++id)
    expect(tables.offsets[id] <= tables.offsets[id + 1], "tokenizer file: offsets fall");
  expect(static_cast<size_t>(tables.offsets[ids]) == tables.tokens.size(), "tokenizer file: not all bytes");
  for (size_t i = 0; i < tables.merges.size(); ++i)
    expect(tables.merges[i] < ids && (tables.flags[tables.merges[i]] & bpe::kWord) != 0,
           "tokenizer file: a merge of no word");
  for (const tokenizer::NumberedToken& token : tables.added()) {
    expect(token.id < ids && tables.flags[token.id] != 0, "tokenizer file: an added token has no place");
    expect(tables.find(file.added[token.place]) == token.id, "tokenizer file: an added token is not found");
  }
  expect(tables.entries() <= file.tokens.size(), "tokenizer file: more tokens than were read");
}

inline ReadTokenizer read_tokenizer(const std::string& text, size_t block, bool byte_level) {
  ReadTokenizer result;
  try {
    tokenizer::TokenizerFile file(1 << 12);
    for (size_t at = 0; at < text.size(); at += block)
      file.feed(tokenizer::as_bytes(std::string_view(text).substr(at, block)));
    file.finish();
    result.rest = file.rest();
    for (size_t entry = 0; entry < file.tokens.size(); ++entry)
      result.tokens.emplace_back(tokenizer::as_view(file.tokens[entry]));
    const tokenizer::VocabularyTables tables(file, byte_level);
    check_tables(tables, file);
    for (size_t i = 0; i < tables.merges.size(); ++i) result.merges.push_back(tables.merges[i]);
  } catch (const std::invalid_argument& error) {
    result.error = error.what();
  }
  return result;
}

inline void fuzz_tokenizer_file(const uint8_t* data, size_t size) {
  const std::string noise(data, data + size);
  const std::string model =
      "{\"model\": {\"continuing_subword_prefix\": \"" + noise.substr(0, size % 3) + "\", ";
  const std::string vocabulary = R"("vocab": {"a": 0, "b": 1, "ab": 2, "\u0120": 3)";
  const std::string texts[] = {
      noise,
      model + "\"vocab\": {" + noise + "}}}",
      model + "\"vocab\": [[\"a\", -1], " + noise + "]}}",
      model + vocabulary + ", \"" + noise + "\": 4}, \"merges\": [\"a b\"," + noise + "]}}",
      model + vocabulary + "}, \"merges\": [[\"a\", \"b\"]" + noise + "]}, \"added_tokens\": []}",
      model + vocabulary +
          R"(}}, "added_tokens": [{"id": 1, "content": "x", "single_word": false, "lstrip": false, "rstrip": true,)" +
          R"( "normalized": true, "special": true})" + noise + "]}",
  };
  for (const std::string& text : texts) {
    const bool byte_level = size % 2 == 1;
    const ReadTokenizer whole = read_tokenizer(text, text.size() + 1, byte_level);
    const ReadTokenizer pieces = read_tokenizer(text, 1 + size % 7, byte_level);
    expect(whole.error.empty() == pieces.error.empty(), "tokenizer file: blocks are refused otherwise");
    if (!whole.error.empty()) continue;
    expect(whole.rest == pieces.rest && whole.tokens == pieces.tokens && whole.merges == pieces.merges,
           "tokenizer file: blocks give something else");
  }
  (void)tokenizer::parse_json_number(noise);
}

}  // namespace krill::fuzz
