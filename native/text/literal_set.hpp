// A set of literal patterns, millions of them, and whether a text contains one.
//
// Patterns are stored end to end and found through an array sorted by their bytes; a pattern that begins with
// another is left out, as the other is found wherever it is. So the only pattern that can begin a text is the
// last that is not greater than it: one binary search. Before that a bitmap of hashed prefixes rejects almost
// every position of a text. Held in memory: the bytes, eight more for each pattern, and two for the bitmaps.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace krill::text {

class LiteralSet {
 public:
  // With room for `patterns` patterns of `bytes` bytes in total. `ignore_case` is for patterns of ASCII
  // letters: as in RE2, k and s are also found as the Kelvin sign and the long s.
  LiteralSet(size_t patterns, size_t bytes, bool ignore_case);

  // Before `finish`; empty patterns are ignored.
  void add(std::string_view pattern);
  void finish();

  // Whether one of them is in the text; `folded` is scratch space that may be used again.
  bool found_in(std::string_view text, std::vector<char>& folded) const;

 private:
  struct Entry {
    uint32_t start;
    uint32_t size;
  };

  // Patterns of at least `width` bytes, and fewer than those of the next.
  struct Group {
    size_t width = 0;
    std::vector<Entry> entries;
    std::vector<uint64_t> bits;
  };

  std::string_view text_of(const Entry& entry) const { return {data_.data() + entry.start, entry.size}; }
  bool begins(const Group& group, std::string_view rest) const;
  void index(Group& group);

  static constexpr std::array<size_t, 4> kWidths = {1, 2, 4, 8};

  bool ignore_case_;
  std::vector<char> data_;
  std::vector<Entry> added_;
  std::vector<Group> groups_;
};

}  // namespace krill::text
