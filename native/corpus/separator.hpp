// Where documents of a text file certainly end, also when the separator overlaps itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace krill::corpus {

// A separator that may overlap itself, as "\n\n" does in three newlines. A cut is exact after an occurrence
// that no earlier one overlaps. Held in memory: four bytes for each byte of the separator.
class Separator {
 public:
  explicit Separator(std::span<const uint8_t> bytes);

  // Whether it can begin before an earlier one ends.
  bool overlaps_itself() const { return !borders_.empty() && borders_.back() > 0; }

  // The end of the first occurrence at or after `begin` that no earlier one overlaps; -1 = none. One pass
  // over the bytes, from as far before `begin` as an overlap can reach.
  ptrdiff_t next_certain(std::span<const uint8_t> data, size_t begin) const;

 private:
  std::vector<uint8_t> bytes_;
  // Of each prefix of the separator, the length of its longest proper border.
  std::vector<uint32_t> borders_;
};

}  // namespace krill::corpus
