// What the regex engine of Hugging Face's tokenizers knows of Unicode: the sets that properties name, and
// which characters are the same when case is ignored. The tables are probed from it: see generate_unicode.py.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "regex/code_set.hpp"

namespace krill::regex {

struct Property {
  const char* name;
  uint32_t offset;  // of its ranges
};

extern const uint8_t kPropertyRanges[];
extern const size_t kProperties;
extern const Property kPropertyNames[];
extern const size_t kFoldedClasses;
extern const uint8_t kFoldedClassPoints[];
extern const size_t kFoldedSequences;
extern const uint8_t kFoldedSequencePoints[];

// Reads a number of generated tables, of seven bits in a byte.
uint32_t read_number(const uint8_t*& at);
// Reads a number of ranges, then for each its distance from the one before, and its size.
CodeSet read_ranges(const uint8_t* at);

// The set of a property, named in lower case without spaces, `-` and `_`; false if there is none of this
// name.
bool find_property(std::string_view name, CodeSet& set);

// One character that is the same as two or three others.
struct FoldedSequence {
  uint32_t point;
  std::vector<uint32_t> points;
};

class CaseFolding {
 public:
  static const CaseFolding& instance();

  // A character and those that are the same when case is ignored.
  CodeSet same_as(uint32_t point) const;
  bool are_same(uint32_t one, uint32_t other) const;
  // Some characters and those that are the same when case is ignored.
  CodeSet closed(const CodeSet& set) const;
  const std::vector<FoldedSequence>& sequences() const { return sequences_; }
  // How many characters (2 or 3, 0 if none) from the front are the same as one; adds these ones.
  size_t match_sequence(const uint32_t* points, size_t count, CodeSet& ones) const;

 private:
  CaseFolding();
  size_t class_of(uint32_t point) const;  // its number, or that of all without one

  std::vector<std::vector<uint32_t>> classes_;
  std::vector<std::array<uint32_t, 2>> members_;  // code point and the number of its class, in order
  std::vector<FoldedSequence> sequences_;
};

}  // namespace krill::regex
