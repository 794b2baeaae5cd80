// The second half of reading a pattern: literals become sets of characters, looks behind are checked.
#pragma once

#include <vector>

#include "regex/tree.hpp"

namespace krill::regex {

// `captures` says which groups are captures, by number. Throws as `parse` does.
void expand(Tree& tree, const std::vector<bool>& captures);

}  // namespace krill::regex
