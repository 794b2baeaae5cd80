#include "text/clean.hpp"

#include <cstring>

#include "text/utf8.hpp"

namespace krill::text {
namespace {

struct Span {
  const uint8_t* begin;
  size_t size;
};

// Takes whitespace off both ends; returns how many characters that were.
size_t strip_ends(Span& text) {
  const Utf8Extent front = leading_whitespace(text.begin, text.size);
  text.begin += front.bytes;
  text.size -= front.bytes;
  const Utf8Extent back = trailing_whitespace(text.begin, text.size);
  text.size -= back.bytes;
  return front.chars + back.chars;
}

// Writes one cleaned document to `out`, which has room for text.size bytes.
Utf8Extent clean_one(Span text, bool strip, uint8_t* out, bool& repaired) {
  if (strip) strip_ends(text);
  if (text.size == 0) return {0, 0};
  const Utf8Extent valid = utf8_prefix(text.begin, text.size);
  if (valid.bytes == text.size) {
    std::memcpy(out, text.begin, text.size);
    return valid;
  }
  repaired = true;
  Utf8Extent kept = utf8_repair(text.begin, text.size, out);
  if (strip) {  // what was left out may have stood before more whitespace
    Span rest{out, kept.bytes};
    kept.chars -= strip_ends(rest);
    kept.bytes = rest.size;
    std::memmove(out, rest.begin, rest.size);
  }
  return kept;
}

}  // namespace

CleanColumn clean(const TextColumn& documents, const uint8_t* null_mask, bool strip, int64_t min_chars) {
  const size_t rows = documents.rows;
  CleanColumn result{Buffer<int64_t>(rows + 1),
                     Buffer<uint8_t>(documents.total()),
                     Buffer<int64_t>(rows),
                     Buffer<uint32_t>(rows),
                     {}};
  size_t kept = 0;
  size_t end = 0;
  result.offsets[0] = 0;
  for (size_t row = 0; row < rows; ++row) {
    if (null_mask != nullptr && null_mask[row] != 0) {
      ++result.counts.not_text;
      continue;
    }
    bool repaired = false;
    const Span text{documents.begin(row), documents.size(row)};
    const Utf8Extent extent = clean_one(text, strip, result.data.data() + end, repaired);
    result.counts.invalid_utf8 += repaired;
    if (static_cast<int64_t>(extent.chars) < min_chars) {
      ++result.counts.too_short;
      continue;
    }
    end += extent.bytes;
    result.kept[kept] = static_cast<int64_t>(row);
    result.chars[kept] = static_cast<uint32_t>(extent.chars);
    result.offsets[++kept] = static_cast<int64_t>(end);
  }
  result.offsets.trim(kept + 1);
  result.data.trim(end);
  result.kept.trim(kept);
  result.chars.trim(kept);
  return result;
}

}  // namespace krill::text
