// From a key to its column: a hash table, since there may be ten thousand wanted keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>

namespace krill::corpus {

class KeySlots {
 public:
  static constexpr size_t kNone = static_cast<size_t>(-1);

  void add(std::span<const uint8_t> key, size_t slot) {
    if (!slots_.emplace(text_of(key), slot).second)
      throw std::invalid_argument("the text key and the carried keys must differ from each other");
  }

  size_t find(std::span<const uint8_t> key) const {
    const auto found = slots_.find(text_of(key));
    return found == slots_.end() ? kNone : found->second;
  }

 private:
  static std::string_view text_of(std::span<const uint8_t> key) {
    return {reinterpret_cast<const char*>(key.data()), key.size()};
  }

  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view key) const { return std::hash<std::string_view>{}(key); }
  };

  std::unordered_map<std::string, size_t, Hash, std::equal_to<>> slots_;
};

}  // namespace krill::corpus
