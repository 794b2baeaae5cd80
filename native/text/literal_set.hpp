// A set of literal patterns, millions of them, and whether a text holds one.
//
// Patterns lie one after the other and are found through an array sorted by their bytes; one that begins with
// another is left out, as it is found where the other is. So of those that are left the only one that can
// begin a text is the last that is not greater than it: one binary search. Before that a bitmap of hashed
// beginnings turns almost every place of a text away. Held: the bytes, eight for each pattern, and two for
// the bitmaps.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace krill {

class LiteralSet {
 public:
  // With room for so many patterns of so many bytes together. `ignore_case` is for patterns of ASCII letters:
  // as in RE2, k and s are also found as the Kelvin sign and the long s.
  LiteralSet(std::size_t patterns, std::size_t bytes, bool ignore_case);

  // Before `finish`; an empty pattern is none.
  void add(std::string_view pattern);
  void finish();

  // Whether one of them is in the text; `folded` is scratch space that may be used again.
  bool found_in(std::string_view text, std::vector<char>& folded) const;

 private:
  struct Entry {
    std::uint32_t start;
    std::uint32_t size;
  };

  // Patterns of at least `width` bytes, and fewer than those of the next.
  struct Group {
    std::size_t width = 0;
    std::vector<Entry> entries;
    std::vector<std::uint64_t> bits;
  };

  std::string_view text_of(const Entry& entry) const { return {data_.data() + entry.start, entry.size}; }
  bool begins(const Group& group, std::string_view rest) const;
  void index(Group& group);

  static constexpr std::array<std::size_t, 4> kWidths = {1, 2, 4, 8};

  bool ignore_case_;
  std::vector<char> data_;
  std::vector<Entry> added_;
  std::vector<Group> groups_;
};

}  // namespace krill
