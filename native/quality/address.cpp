// Web and mail addresses, which are one word however many marks they have.
#include <cstring>
#include <string_view>

#include "quality/words.hpp"

namespace krill::quality {
namespace {

constexpr size_t kLongestLabel = 64;  // characters

bool is_edge(uint8_t byte) { return byte == '-' || byte == '_'; }

bool in_scheme(uint32_t point) {
  return point == '+' || point == '-' || point == '.' || point == '_' || traits_of(point) & kAlphanumeric;
}

// The length of a scheme and its `://`, or 0.
size_t scheme_length(const uint8_t* text, size_t size) {
  size_t at = 0;
  size_t characters = 0;
  while (at < size) {
    const Character here = character_at(text + at, size - at);
    if (!in_scheme(here.point)) break;
    at += here.length;
    ++characters;
  }
  return characters >= 2 && size - at >= 3 && std::memcmp(text + at, "://", 3) == 0 ? at + 3 : 0;
}

// One label of a host name, and what it is.
struct Label {
  size_t size;
  bool is_label;
  bool is_top;  // small letters only: it may be the last one
};

Label label_at(const uint8_t* text, size_t size) {
  size_t at = 0;
  size_t characters = 0;
  bool top = true;
  while (at < size) {
    const Character here = character_at(text + at, size - at);
    const bool inside = here.point > 0xa0 || is_edge(text[at]) || traits_of(here.point) & kAlphanumeric;
    if (!inside) break;
    top = top && traits_of(here.point) & kMayBeLower;
    at += here.length;
    ++characters;
  }
  const bool label = at > 0 && characters <= kLongestLabel && !is_edge(text[0]) && !is_edge(text[at - 1]);
  return {at, label, top && characters >= 2 && characters < kLongestLabel};
}

// What may follow a host: a port, and a path.
bool is_rest(const uint8_t* text, size_t size) {
  size_t at = 0;
  if (size > 0 && text[0] == ':') {
    ++at;
    while (at < size && text[at] >= '0' && text[at] <= '9') ++at;
    if (at < 3 || at > 6) return false;
  }
  return at == size || text[at] == '/' || text[at] == '?' || text[at] == '#';
}

bool is_host(const uint8_t* text, size_t size) {
  size_t at = 0;
  for (size_t labels = 0;; ++labels) {
    const Label label = label_at(text + at, size - at);
    at += label.size;
    if (at < size && text[at] == '.') {
      if (!label.is_label) return false;
      ++at;
    } else {
      return labels > 0 && label.is_top && is_rest(text + at, size - at);
    }
  }
}

}  // namespace

bool is_address(const uint8_t* text, size_t size) {
  if (std::memchr(text, '.', size) == nullptr) return false;  // every host has one
  const size_t begin = scheme_length(text, size);
  if (is_host(text + begin, size - begin)) return true;
  const size_t user = std::string_view(reinterpret_cast<const char*>(text), size).rfind('@');
  return user != std::string_view::npos && user > 0 && is_host(text + user + 1, size - user - 1);
}

}  // namespace krill::quality
