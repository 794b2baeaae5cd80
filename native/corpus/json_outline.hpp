// The outline of a tokenizer.json: its JSON without the large parts, to inspect it before it is loaded.
//
// In: the file, piece by piece. Out: the same JSON with the lists and tables of tokens empty, and how many
// values and bytes those have. Held in memory: the outline, up to a limit. Any input is accepted; invalid
// JSON gives an invalid outline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace krill::corpus {

class JsonOutline {
 public:
  // What was left out of one part.
  struct Part {
    uint64_t values = 0;
    uint64_t bytes = 0;
    uint64_t strings = 0;
    uint64_t string_bytes = 0;  // between quotes
  };

  explicit JsonOutline(size_t most_bytes) : most_bytes_(most_bytes) {}

  void feed(std::string_view text);

  // False if the outline was too large, or nested too deep.
  bool complete() const { return complete_; }
  const std::string& text() const { return text_; }
  Part vocabulary;
  Part merges;
  Part added_tokens;

 private:
  void structural(char byte);
  void open(char byte);
  void close();
  Part* part_here();

  static constexpr size_t kDeepest = 200;
  static constexpr size_t kLongestKey = 32;

  size_t most_bytes_;
  std::string text_;
  bool complete_ = true;
  bool in_string_ = false;
  bool escaped_ = false;
  std::string string_;      // the last string at a depth where keys matter
  std::string keys_[3];     // by depth
  std::vector<char> open_;  // brackets
  size_t left_out_ = 0;     // depth of the container that is left out; 0 = none
  bool empty_ = true;       // whether that container is empty so far
  Part* part_ = nullptr;
};

}  // namespace krill::corpus
