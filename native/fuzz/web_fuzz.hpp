// Pages: measured up to any limit the same way, with and without one, and stripped to no more than they hold.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/readers_fuzz.hpp"
#include "web/page_size.hpp"
#include "web/page_text.hpp"

namespace krill::fuzz {

inline void fuzz_web(const uint8_t* input, size_t size) {
  Settings settings(input, size);
  const int64_t tags = settings.next() % 16;
  const std::string_view page(reinterpret_cast<const char*>(settings.rest()), settings.rest_size());
  const int64_t most = int64_t{1} << 60;
  const web::PageSize whole = web::measure_page(page, {most, most, most});
  require(whole.tags >= 0 && whole.depth >= 0 && whole.work >= 0, "a measure below zero");
  require(whole.attributes <= whole.attribute_bytes, "attributes without a letter");
  require(whole.tags + whole.attribute_bytes <= static_cast<int64_t>(page.size()),
          "tags longer than the page");
  require(whole.depth <= 2 * whole.tags, "more open elements than there are");
  const web::PageSize limited = web::measure_page(page, {tags, most, most});
  require(limited.tags == std::min(whole.tags, tags + 1), "a limit counts otherwise");
  const std::string text = web::page_text(page);
  require(text.size() <= page.size(), "a text longer than its page");
}

}  // namespace krill::fuzz
