// Numbers of JSON with the values that `serde_json` gives them, with which Hugging Face's library reads its
// files.
//
// These are not always the nearest doubles: digits are gathered in 64 bits, and the result is multiplied or
// divided by a power of ten, so that one number in eight is off by its last bit. Scores of Unigram are
// compared exactly, so they have to be off by the same bit.
#pragma once

#include <cstdint>
#include <string_view>

namespace krill::tokenizer {

struct JsonNumber {
  enum class Kind : uint8_t {
    kInvalid,   // not a number of JSON
    kTooLarge,  // its value would be infinite
    kInteger,   // digits alone, of up to 64 bits
    kFloat,
  };
  Kind kind;
  uint64_t integer = 0;
  double value = 0;  // of integers too
};

JsonNumber parse_json_number(std::string_view text);

}  // namespace krill::tokenizer
