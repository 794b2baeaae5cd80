#include "text/scanner.hpp"

#include "text/scanner_masks.hpp"

namespace krill::text {

std::optional<Pattern> pattern_named(std::string_view name) {
  for (const NamedPattern& known : kNamedPatterns) {
    if (known.name == name) return known.pattern;
  }
  return std::nullopt;
}

size_t scan_words(const Pattern& pattern, const uint8_t* text, size_t size, size_t from, uint32_t* ends,
                  size_t capacity) {
  using enum Pattern::Letters;
  switch (pattern.letters) {
    case after_blank: return scan<after_blank>(pattern, text, size, from, ends, capacity);
    case after_any: return scan<after_any>(pattern, text, size, from, ends, capacity);
    case with_marks: return scan<with_marks>(pattern, text, size, from, ends, capacity);
    case by_case: return scan<by_case>(pattern, text, size, from, ends, capacity);
  }
  return 0;
}

}  // namespace krill::text
