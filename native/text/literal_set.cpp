#include "text/literal_set.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace krill::text {

namespace {

constexpr size_t kBitsPerPattern = 16;

uint64_t beginning(const char* text, size_t width) {
  uint64_t value = 0;
  if (width == 8)
    std::memcpy(&value, text, 8);
  else if (width == 4)
    std::memcpy(&value, text, 4);
  else
    std::memcpy(&value, text, width);
  return value;
}

size_t bit_of(uint64_t value, size_t bits) {
  return static_cast<size_t>((value * 0x9e3779b97f4a7c15u) >> (64 - std::countr_zero(bits)));
}

// The next character in lower case; `size` is its length in the text.
char folded_at(std::string_view text, size_t at, size_t& size) {
  size = 1;
  const char byte = text[at];
  if (byte >= 'A' && byte <= 'Z') return static_cast<char>(byte + ('a' - 'A'));
  const std::string_view rest = text.substr(at);
  if (rest.starts_with("\xc5\xbf")) {  // the long s
    size = 2;
    return 's';
  }
  if (rest.starts_with("\xe2\x84\xaa")) {  // the Kelvin sign
    size = 3;
    return 'k';
  }
  return byte;
}

}  // namespace

LiteralSet::LiteralSet(size_t patterns, size_t bytes, bool ignore_case) : ignore_case_(ignore_case) {
  data_.reserve(bytes);
  added_.reserve(patterns);
}

void LiteralSet::add(std::string_view pattern) {
  if (pattern.empty()) return;
  if (data_.size() + pattern.size() > std::numeric_limits<uint32_t>::max())
    throw std::length_error("the patterns have 4 GiB or more");
  added_.push_back({static_cast<uint32_t>(data_.size()), static_cast<uint32_t>(pattern.size())});
  data_.insert(data_.end(), pattern.begin(), pattern.end());
  if (!ignore_case_) return;
  for (auto at = data_.end() - static_cast<ptrdiff_t>(pattern.size()); at != data_.end(); ++at)
    if (*at >= 'A' && *at <= 'Z') *at = static_cast<char>(*at + ('a' - 'A'));
}

void LiteralSet::finish() {
  const auto width_of = [](const Entry& entry) {
    return *std::find_if(kWidths.rbegin(), kWidths.rend(), [&](size_t width) { return width <= entry.size; });
  };
  // Sorted in place, so that nothing is held twice: group after group, each sorted.
  std::sort(added_.begin(), added_.end(), [&](const Entry& a, const Entry& b) {
    const size_t left = width_of(a);
    const size_t right = width_of(b);
    return left != right ? left > right : text_of(a) < text_of(b);
  });
  while (!added_.empty()) {
    Group group;
    group.width = width_of(added_.back());
    const auto first = std::find_if(added_.begin(), added_.end(),
                                    [&](const Entry& entry) { return width_of(entry) == group.width; });
    const auto last = std::unique(first, added_.end(), [&](const Entry& kept, const Entry& next) {
      return text_of(next).starts_with(text_of(kept));
    });
    if (first == added_.begin()) {
      added_.erase(last, added_.end());
      group.entries = std::move(added_);
      added_ = {};
    } else {
      group.entries.assign(first, last);
      added_.erase(first, added_.end());
    }
    index(group);
    groups_.push_back(std::move(group));
  }
}

void LiteralSet::index(Group& group) {
  const size_t bits = std::bit_ceil(std::max<size_t>(group.entries.size() * kBitsPerPattern / 2, 4096));
  group.bits.assign(bits / 64, 0);
  for (const Entry& entry : group.entries) {
    const size_t bit = bit_of(beginning(data_.data() + entry.start, group.width), bits);
    group.bits[bit / 64] |= uint64_t{1} << bit % 64;
  }
}

bool LiteralSet::begins(const Group& group, std::string_view rest) const {
  const auto after =
      std::upper_bound(group.entries.begin(), group.entries.end(), rest,
                       [&](std::string_view text, const Entry& entry) { return text < text_of(entry); });
  return after != group.entries.begin() && rest.starts_with(text_of(*(after - 1)));
}

bool LiteralSet::found_in(std::string_view text, std::vector<char>& folded) const {
  if (ignore_case_) {
    folded.clear();
    folded.reserve(text.size());
    size_t size = 1;
    for (size_t at = 0; at < text.size(); at += size) folded.push_back(folded_at(text, at, size));
    text = {folded.data(), folded.size()};
  }
  for (const Group& group : groups_) {
    const size_t bits = group.bits.size() * 64;
    for (size_t at = 0; at + group.width <= text.size(); ++at) {
      const size_t bit = bit_of(beginning(text.data() + at, group.width), bits);
      if ((group.bits[bit / 64] >> bit % 64 & 1) != 0 && begins(group, text.substr(at))) return true;
    }
  }
  return false;
}

}  // namespace krill::text
