#include "text/scanner.hpp"

#include "text/scanner_masks.hpp"

namespace krill::text {

std::optional<Pattern> pattern_named(std::string_view name) {
  if (name == "gpt2") return Pattern::gpt2;
  if (name == "cl100k") return Pattern::cl100k;
  if (name == "o200k") return Pattern::o200k;
  if (name == "llama3") return Pattern::llama3;
  if (name == "qwen2") return Pattern::qwen2;
  return std::nullopt;
}

size_t scan_words(Pattern pattern, const uint8_t* text, size_t size, size_t from, uint32_t* ends,
                  size_t capacity) {
  switch (pattern) {
    case Pattern::gpt2: return scan<Pattern::gpt2>(text, size, from, ends, capacity);
    case Pattern::cl100k: return scan<Pattern::cl100k>(text, size, from, ends, capacity);
    case Pattern::o200k: return scan<Pattern::o200k>(text, size, from, ends, capacity);
    case Pattern::llama3: return scan<Pattern::llama3>(text, size, from, ends, capacity);
    case Pattern::qwen2: return scan<Pattern::qwen2>(text, size, from, ends, capacity);
  }
  return 0;
}

}  // namespace krill::text
