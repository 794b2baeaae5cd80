#include "regex/ascii_pairs.hpp"

#include <algorithm>

namespace krill::regex {

void AsciiPairs::build(const Symbols& symbols, const std::vector<uint32_t>& cuts, unsigned stride_bits) {
  std::vector<uint8_t> known;
  for (uint8_t byte = 0; byte < 128; ++byte) {
    const uint8_t symbol = symbols.of_ascii(byte);
    const auto found = std::find(known.begin(), known.end(), symbol);
    nibbles_[byte] = static_cast<uint8_t>(found - known.begin());
    if (found == known.end()) known.push_back(symbol);
  }
  if (known.size() > 16) return;
  shift_ = 8 - stride_bits;
  entries_.assign((cuts.size() >> stride_bits) << 8, kPairSpecial);
  for (size_t row = 0; row < cuts.size(); row += size_t{1} << stride_bits) {
    for (size_t first = 0; first < known.size(); ++first) {
      const uint32_t one = cuts[row + known[first]];
      if (one & kSpecial) continue;
      for (size_t second = 0; second < known.size(); ++second) {
        const uint32_t two = cuts[(one >> kCutFlags) + known[second]];
        if (two & kSpecial) continue;
        const auto flags = [](uint32_t entry, uint32_t cut, uint32_t after_gap) {
          return (entry & kCut ? cut : 0) | (entry & kAfterGap ? after_gap : 0);
        };
        entries_[(row << shift_) + (first << 4) + second] = two >> kCutFlags << (shift_ + kPairFlags) |
                                                            flags(one, kFirstCut, kFirstAfterGap) |
                                                            flags(two, kSecondCut, kSecondAfterGap);
      }
    }
  }
}

}  // namespace krill::regex
