#include "text/scanner.hpp"

#include "text/scanner_masks.hpp"

namespace krill::text {

std::optional<Pattern> pattern_named(std::string_view name) {
  for (const NamedPattern& known : kNamedPatterns) {
    if (known.name == name) return known.pattern;
  }
  return std::nullopt;
}

size_t scan_words_plainly(const Pattern& pattern, const uint8_t* text, size_t size, size_t from,
                          uint32_t* ends, size_t capacity) {
  return scan_by<ScanBlock>(pattern, text, size, from, ends, capacity);
}

#if defined(__x86_64__)

namespace {

// Flattened, so that all of it is compiled for these machines.
KRILL_AVX512 [[gnu::flatten]] size_t scan_words_wide(const Pattern& pattern, const uint8_t* text, size_t size,
                                                     size_t from, uint32_t* ends, size_t capacity) {
  return scan_by<WideScanBlock>(pattern, text, size, from, ends, capacity);
}

}  // namespace

size_t scan_words(const Pattern& pattern, const uint8_t* text, size_t size, size_t from, uint32_t* ends,
                  size_t capacity) {
  static const auto best = WideScanBlock::is_supported() ? scan_words_wide : scan_words_plainly;
  return best(pattern, text, size, from, ends, capacity);
}

#else

size_t scan_words(const Pattern& pattern, const uint8_t* text, size_t size, size_t from, uint32_t* ends,
                  size_t capacity) {
  return scan_words_plainly(pattern, text, size, from, ends, capacity);
}

#endif

}  // namespace krill::text
