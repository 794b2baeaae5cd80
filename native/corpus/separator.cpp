#include "corpus/separator.hpp"

namespace krill::corpus {

Separator::Separator(std::span<const uint8_t> bytes)
    : bytes_(bytes.begin(), bytes.end()), borders_(bytes.size()) {
  uint32_t matched = 0;
  for (size_t at = 1; at < bytes_.size(); ++at) {
    while (matched > 0 && bytes_[at] != bytes_[matched]) matched = borders_[matched - 1];
    if (bytes_[at] == bytes_[matched]) ++matched;
    borders_[at] = matched;
  }
}

ptrdiff_t Separator::next_certain(std::span<const uint8_t> data, size_t begin) const {
  const size_t length = bytes_.size();
  if (length == 0) return -1;
  const size_t start = begin >= length ? begin - length + 1 : 0;
  size_t matched = 0;
  ptrdiff_t previous = -1;
  for (size_t at = start; at < data.size(); ++at) {
    while (matched > 0 && (matched == length || data[at] != bytes_[matched])) matched = borders_[matched - 1];
    if (data[at] == bytes_[matched]) ++matched;
    if (matched < length) continue;
    const size_t found = at + 1 - length;
    const bool alone = previous < 0 || found - static_cast<size_t>(previous) >= length;
    if (found >= begin && alone) return static_cast<ptrdiff_t>(at + 1);
    previous = static_cast<ptrdiff_t>(found);
  }
  return -1;
}

}  // namespace krill::corpus
