// Text as the language model was trained on it: capitals alone become small letters, and all is in normal
// form C.
//
// Comes in: the bytes of a document, UTF-8. Goes out: the same bytes where nothing is to be done, else a
// copy. Held: two copies at most of the longest document so far, which few texts make longer and none three
// times as long.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace krill::language {

// A well-formed text by Python's rules: str.isupper, str.lower, unicodedata.is_normalized and normalize.
// Bytes that are not UTF-8 are passed on as they are.
bool is_upper(std::span<const uint8_t> text);
void append_lower(std::span<const uint8_t> text, std::vector<uint8_t>& out);
// May say no of a text that is composed, never yes of one that is not.
bool is_surely_composed(std::span<const uint8_t> text);
void append_composed(std::span<const uint8_t> text, std::vector<uint8_t>& out);

class LanguageText {
 public:
  // Good until the next call.
  std::span<const uint8_t> prepare(std::span<const uint8_t> text);

 private:
  std::vector<uint8_t> lowered_;
  std::vector<uint8_t> composed_;
};

}  // namespace krill::language
