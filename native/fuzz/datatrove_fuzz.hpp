// Drives datatrove's signatures with tables and columns taken from the input, holds them to a slow and
// obvious version, and aborts where they differ.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "datatrove/signatures.hpp"
#include "datatrove/xxh64.hpp"
#include "fuzz/kernels_fuzz.hpp"

namespace krill::fuzz {

// Some characters that change: most tables that the input makes of them are ones that nobody would write.
struct Changes {
  std::vector<uint32_t> points;
  std::vector<uint8_t> kinds;
  std::vector<int64_t> offsets{0};
  std::vector<uint8_t> replacements;

  explicit Changes(Settings& settings) {
    constexpr uint32_t kPoints[] = {' ', '\n',  '.',  ',',   '0',    '7',    'A',
                                    'b', 0x60c, 0xe9, 0x3a3, 0x6f22, 0x1f600};
    for (const uint32_t point : kPoints) {
      const uint8_t drawn = settings.next();
      if (drawn % 3 == 0) continue;
      points.push_back(point);
      kinds.push_back(drawn / 3 % datatrove::kChanges);
      if (drawn % 2 == 0) replacements.push_back(drawn % 5 == 0 ? ' ' : 'z');
      offsets.push_back(static_cast<int64_t>(replacements.size()));
    }
  }

  datatrove::Simplifier simplifier() const {
    const text::TextColumn column{offsets.data(), points.size(), replacements.data(), replacements.size()};
    column.check();
    return datatrove::Simplifier(points.data(), kinds.data(), column);
  }
};

inline void check_signature(const std::string& words, size_t ngram, const std::vector<uint64_t>& factors,
                            const std::vector<uint64_t>& addends, const uint64_t* numbers, bool has) {
  std::vector<std::string> found;
  std::istringstream stream(words);
  for (std::string word; std::getline(stream, word, ' ');) found.push_back(word);
  expect(has == (found.size() >= ngram), "signature: has none, or one of too few words");
  for (size_t at = 0; at < factors.size() && has; ++at) {
    uint64_t least = ~uint64_t{0};
    for (size_t first = 0; first + ngram <= found.size(); ++first) {
      std::string shingle = found[first];
      for (size_t word = 1; word < ngram; ++word) shingle += " " + found[first + word];
      const auto* bytes = reinterpret_cast<const uint8_t*>(shingle.data());
      const uint64_t hash = datatrove::xxh64(bytes, shingle.size());
      least = std::min(least, (hash * factors[at] + addends[at]) % ((uint64_t{1} << 61) - 1));
    }
    expect(numbers[at] == least, "signature: not the least");
  }
}

inline void fuzz_signatures(Settings settings) {
  const Changes changes(settings);
  const size_t ngram = 1 + settings.next() % 6;
  std::vector<uint64_t> factors(1 + settings.next() % 20), addends(factors.size());
  for (size_t at = 0; at < factors.size(); ++at) {
    factors[at] = (settings.next() + at + 1) * 0x9e3779b97f4a7c15u;
    addends[at] = settings.next() % 2 ? ~uint64_t{0} - at : (at + 1) * 0xc2b2ae3d27d4eb4fu;
  }
  const datatrove::Signer signer(changes.simplifier(), factors.data(), addends.data(), factors.size(), ngram);
  const Column column = cut_column(settings);
  const datatrove::SignatureTable table = signer.sign(column.view());
  const datatrove::JoinedWords words = signer.words(column.view());
  for (size_t row = 0; row < column.rows(); ++row) {
    const uint8_t* bytes = words.bytes.data();
    const std::string own = words.offsets[row] == words.offsets[row + 1]
                                ? std::string()
                                : std::string(bytes + words.offsets[row], bytes + words.offsets[row + 1]);
    check_signature(own, ngram, factors, addends, table.numbers.data() + row * factors.size(),
                    table.has_shingle[row] != 0);
  }
}

inline void fuzz_hostile_changes(Settings settings) {
  Changes changes(settings);
  if (changes.points.empty()) return;
  if (settings.flag()) changes.points[0] = settings.next() * 0x10001u;
  if (settings.flag()) changes.kinds[0] = settings.next();
  try {
    datatrove::Simplifier::Text out;
    changes.simplifier().simplify(settings.rest(), settings.rest_size(), out);
  } catch (const std::invalid_argument&) {
  }
}

inline void fuzz_datatrove(const uint8_t* data, size_t size) {
  fuzz_signatures({data, size});
  fuzz_hostile_changes({data, size});
}

}  // namespace krill::fuzz
