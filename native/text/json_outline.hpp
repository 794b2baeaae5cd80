// A large JSON object without its large parts: what a tokenizer.json is, told before it is read.
//
// Comes in: the file, piece by piece. Goes out: the same JSON with the lists and tables of tokens empty, and
// how many values and bytes those have. Held in memory: the outline, up to a limit. Anything may come in;
// what is no JSON gives an outline that is none either.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace krill {

class JsonOutline {
 public:
  // The values of one kind that were left out.
  struct Part {
    std::uint64_t values = 0;
    std::uint64_t bytes = 0;
    std::uint64_t strings = 0;
    std::uint64_t string_bytes = 0;  // between quotes
  };

  explicit JsonOutline(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  void feed(std::string_view text);

  // Whether all of it was small enough, and not nested too deep.
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

  static constexpr std::size_t kDeepest = 200;
  static constexpr std::size_t kLongestKey = 32;

  std::size_t most_bytes_;
  std::string text_;
  bool complete_ = true;
  bool in_string_ = false;
  bool escaped_ = false;
  std::string string_;        // the last one at a depth where keys matter
  std::string keys_[3];       // by depth
  std::vector<char> open_;    // brackets
  std::size_t left_out_ = 0;  // the depth of what is left out; 0 = nothing
  bool empty_ = true;         // what is left out, so far
  Part* part_ = nullptr;
};

}  // namespace krill
