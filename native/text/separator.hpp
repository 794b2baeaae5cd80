// Where records of a text file end for certain, whatever the separator does to itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace krill::text {

// A separator that may overlap itself: a blank line in three newlines. A cut is exact behind one that no
// earlier one overlaps. Held in memory: four bytes for each byte of the separator.
class Separator {
 public:
  explicit Separator(std::span<const std::uint8_t> bytes);

  // Whether it can begin before an earlier one ends.
  bool overlaps_itself() const { return !borders_.empty() && borders_.back() > 0; }

  // The end of the first one that begins at or after `begin` and that none before it overlaps; -1 = none. One
  // pass over the bytes, from as far before `begin` as an overlap can reach.
  std::ptrdiff_t next_certain(std::span<const std::uint8_t> data, std::size_t begin) const;

 private:
  std::vector<std::uint8_t> bytes_;
  // Of each beginning of the separator, the longest shorter beginning that it also ends with.
  std::vector<std::uint32_t> borders_;
};

}  // namespace krill::text
