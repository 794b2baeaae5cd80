// A page without its tags: for pages that are too much for a parser.
//
// In: a page in UTF-8. Out: the text between its tags, without scripts, styles and the like; a new line where
// an element begins or ends that is a line of its own, else nothing in place of a tag. Entities stay as they
// are. One pass, and no more memory than the text.
#pragma once

#include <string>
#include <string_view>

namespace krill::web {

std::string page_text(std::string_view page);

}  // namespace krill::web
