// How much work a page is for a parser, found without parsing it: elements, nesting, and what grows with the
// square of the page.
//
// In: a page in UTF-8 or another superset of ASCII. Out: numbers that are not below those of the tree that
// the HTML standard makes of it, as far as elements go that stand in the page. Held in memory: the open
// elements, up to the limit of nesting.
#pragma once

#include <cstdint>
#include <string_view>

namespace krill::web {

struct PageSize {
  int64_t tags = 0;   // elements that begin, and comments
  int64_t depth = 0;  // of them, the most that are open at once
  // For each tag what a parser, or who walks up from each element, may look at: the open elements, those that
  // are opened again with it, and shares of the attributes and options in front of it.
  int64_t work = 0;
  int64_t attributes = 0;       // of elements that begin
  int64_t attribute_bytes = 0;  // what stands in their tags behind the names
};

struct PageLimits {
  int64_t tags;
  int64_t depth;
  int64_t work;

  bool hold(const PageSize& size) const {
    return size.tags <= tags && size.depth <= depth && size.work <= work;
  }
};

// Ends with the first tag that is beyond a limit. `empty_raw`: a raw element whose tag ends with a slash is
// empty, as libxml2 reads it; browsers read all that follows as its text.
PageSize measure_page(std::string_view page, const PageLimits& limits, bool empty_raw = false);

}  // namespace krill::web
