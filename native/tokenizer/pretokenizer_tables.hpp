// What Hugging Face's pre-tokenizers take each code point for, as packed ranges: see
// generate_pretokenizer_tables.py.
#pragma once

#include <cstdint>

namespace krill::tokenizer {

extern const uint8_t kDigits[];       // Digits
extern const uint8_t kPunctuation[];  // Punctuation and BertPreTokenizer
extern const uint8_t kWhitespace[];   // WhitespaceSplit and BertPreTokenizer
extern const uint8_t kRegexSpaces[];  // Whitespace: \s
extern const uint8_t kRegexWords[];   // Whitespace: \w
extern const uint8_t kScripts[];      // UnicodeScripts: each range is followed by a number from 1

}  // namespace krill::tokenizer
