// The tags of a page, one after the other, and what the HTML standard says of elements by their names.
//
// The scanner sees at least the tags that a parser would: in doubt, as inside of a script behind SVG that is
// not closed properly, it sees more.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace krill::web {

enum ElementFlag : uint32_t {
  kVoid = 1 << 0,            // has no content
  kRaw = 1 << 1,             // its content is text up to its end tag
  kFormatting = 1 << 2,      // opened again where it was cut off
  kClosesP = 1 << 3,         // ends a paragraph
  kScope = 1 << 4,           // end tags do not reach beyond it
  kSpecial = 1 << 5,         // nor those of elements that are not special
  kBlockEnd = 1 << 6,        // its end tag ends all that is open inside of it
  kListItem = 1 << 7,        // li
  kDefinition = 1 << 8,      // dd, dt
  kHeading = 1 << 9,         // h1 to h6
  kOption = 1 << 10,         // option, optgroup
  kCell = 1 << 11,           // td, th
  kRow = 1 << 12,            // tr
  kRowGroup = 1 << 13,       // tbody, thead, tfoot, caption, colgroup
  kTable = 1 << 14,          // table
  kTemplate = 1 << 15,       // template
  kForeign = 1 << 16,        // svg, math
  kIntegration = 1 << 17,    // HTML inside of these
  kParagraph = 1 << 18,      // p
  kButton = 1 << 19,         // button
  kList = 1 << 20,           // ul, ol
  kForm = 1 << 21,           // form
  kRoot = 1 << 22,           // html, body, head, frameset: there is one of each
  kSelect = 1 << 23,         // select
  kHidden = 1 << 24,         // nothing in it is shown
  kBreak = 1 << 25,          // a line ends here
  kLeavesForeign = 1 << 26,  // ends SVG that is open around it
};

// A tag's name: `key` is the same for the same name, whatever the case of its letters.
struct TagName {
  uint32_t key;
  uint32_t flags;
};

TagName tag_name(std::string_view name);

struct Tag {
  TagName name;
  uint32_t attributes;
  size_t attribute_bytes;  // with what stands between them
  bool end;
  bool self_closing;
};

// Calls `sink.text(text)` for what stands between tags, `sink.tag(tag)` for each of them and
// `sink.comment()` for comments, in order, until one of the latter two returns false. What a raw element
// holds is one text if `sink.raw_text(tag)` says so of its tag.
template <class Sink>
void scan_page(std::string_view page, Sink& sink);

}  // namespace krill::web

#include "web/html_scanner.hpp"
