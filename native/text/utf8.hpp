// UTF-8: how far bytes are well-formed, how many code points they hold, and repair of the rest.
//
// Well-formed is what Unicode and CPython call so: no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>

namespace krill::text {

struct Utf8Extent {
  size_t bytes;
  size_t chars;
};

// The longest well-formed prefix.
Utf8Extent utf8_prefix(const uint8_t* text, size_t size);

// Copies all well-formed sequences and leaves the other bytes out, as bytes.decode("utf-8", "ignore") does.
// `out` has room for `size` bytes.
Utf8Extent utf8_repair(const uint8_t* text, size_t size, uint8_t* out);

// Whitespace at either end, by str.strip's idea of whitespace. The text may be ill-formed elsewhere: a
// lead byte ends whatever was unfinished before it, so a sequence at the edge means the same everywhere.
Utf8Extent leading_whitespace(const uint8_t* text, size_t size);
Utf8Extent trailing_whitespace(const uint8_t* text, size_t size);

}  // namespace krill::text
