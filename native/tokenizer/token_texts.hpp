// Texts one after the other in one buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "check.hpp"
#include "growing_buffer.hpp"

namespace krill::tokenizer {

inline std::string_view as_view(std::span<const uint8_t> text) {
  return {reinterpret_cast<const char*>(text.data()), text.size()};
}

inline std::span<const uint8_t> as_bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

class TokenTexts {
 public:
  size_t size() const { return ends_.size(); }
  std::span<const uint8_t> operator[](size_t index) const {
    const size_t begin = index == 0 ? 0 : ends_[index - 1];
    return {bytes_.data() + begin, ends_[index] - begin};
  }
  size_t bytes() const { return bytes_.size(); }

  void add(std::span<const uint8_t> text) {
    append(text);
    end();
  }
  // For a text that is made of several.
  void append(std::span<const uint8_t> text) {
    expect(text.size() < std::numeric_limits<uint32_t>::max() - bytes_.size(),
           "its tokens have 4 GiB or more");
    bytes_.append(text.data(), text.size());
  }
  void end() { ends_.push_back(static_cast<uint32_t>(bytes_.size())); }

  void clear() { *this = TokenTexts(); }

 private:
  GrowingBuffer<uint8_t> bytes_;
  GrowingBuffer<uint32_t> ends_;
};

}  // namespace krill::tokenizer
