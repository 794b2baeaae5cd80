// Drives what near-duplicates, Bloom filters and pieces are made of with columns and records taken from the
// input, holds them to slow and obvious versions, and aborts where they differ.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "dedup/bloom.hpp"
#include "dedup/components.hpp"
#include "dedup/min_table.hpp"
#include "dedup/minhash.hpp"
#include "dedup/minhash_lanes.hpp"
#include "dedup/pieces.hpp"
#include "fuzz/kernels_fuzz.hpp"
#include "text/utf8.hpp"

namespace krill::fuzz {

inline void fuzz_fold(Settings settings) {
  const Column column = cut_column(settings);
  const dedup::FoldedText folded = dedup::folded_text(column.view());
  for (size_t row = 0; row < column.rows(); ++row) {
    const uint8_t* begin = folded.bytes.data() + folded.offsets[row];
    const auto size = static_cast<size_t>(folded.offsets[row + 1] - folded.offsets[row]);
    expect(text::utf8_prefix(begin, size).bytes == size, "fold: not UTF-8");
    const std::string words(begin, begin + size);
    expect(words.empty() || (words.front() != ' ' && words.back() != ' '), "fold: a gap at an end");
    expect(words.find("  ") == std::string::npos, "fold: two gaps");
  }
}

// A document's bands don't depend on where it stands, and agree wherever shingles do.
inline void fuzz_bands(Settings settings) {
  const size_t bands = 1 + settings.next() % 20;
  const size_t rows = 1 + settings.next() % 20;
  const size_t ngram = 1 + settings.next() % 8;
  const dedup::MinHasher hasher(bands, rows, ngram);
  const Column column = cut_column(settings);
  const Buffer<uint64_t> together = hasher.bands_of(column.view());
  const dedup::ShingleSets sets = dedup::shingle_sets(column.view(), ngram);
  std::map<std::vector<uint64_t>, std::vector<uint64_t>> bands_of_set;
  for (size_t row = 0; row < column.rows(); ++row) {
    const std::string text = column.row(row);
    const Column alone{{0, static_cast<int64_t>(text.size())}, {text.begin(), text.end()}};
    const Buffer<uint64_t> own = hasher.bands_of(alone.view());
    const std::vector<uint64_t> numbers(own.data(), own.data() + bands);
    expect(std::equal(numbers.begin(), numbers.end(), together.data() + row * bands),
           "bands: depend on the place");
    const std::vector<uint64_t> set(sets.shingles.data() + sets.offsets[row],
                                    sets.shingles.data() + sets.offsets[row + 1]);
    expect(!set.empty() && std::adjacent_find(set.begin(), set.end(), std::greater_equal<>()) == set.end(),
           "shingles: not a set");
    const auto [known, is_new] = bands_of_set.emplace(set, numbers);
    expect(is_new || known->second == numbers, "bands: equal sets differ");
  }
}

inline void fuzz_lanes(Settings settings) {
  dedup::ShingleBatch batch;
  while (settings.rest_size() > 0 && batch.size < dedup::kBatch) {
    batch.low[batch.size] = settings.next() * 0x9e3779b9u;
    batch.high[batch.size++] = settings.next() * 0x85ebca6bu;
  }
  std::vector<uint32_t> low(dedup::kLanes), high(dedup::kLanes), least(dedup::kLanes, ~uint32_t{0});
  for (size_t i = 0; i < dedup::kLanes; ++i) {
    low[i] = static_cast<uint32_t>(2 * i + 1) * 0x01000193u | 1;
    high[i] = static_cast<uint32_t>(2 * i + 3) * 0xc2b2ae35u | 1;
  }
  std::vector<uint32_t> expected = least;
  for (size_t i = 0; i < batch.size; ++i)
    for (size_t lane = 0; lane < dedup::kLanes; ++lane)
      expected[lane] = std::min(expected[lane], low[lane] * batch.low[i] + high[lane] * batch.high[i]);
  dedup::fold_lanes<16>(batch, low.data(), high.data(), least.data());
  expect(least == expected, "lanes: not the least");
}

inline void fuzz_min_table(Settings settings) {
  dedup::MinTable table(32 + size_t{settings.next()} * 16);
  std::map<uint64_t, uint64_t> least;
  while (settings.rest_size() > 0) {
    const dedup::Hash record{settings.next(), uint64_t{settings.next()} << (settings.next() % 57)};
    const auto found = least.find(record.high);
    uint64_t answer = 0;
    try {
      table.fold(&record, 1, &answer);
    } catch (const dedup::TableFull&) {
      expect(found == least.end() && least.size() == table.max_keys(), "least numbers: full too early");
      return;
    }
    uint64_t& number = least.try_emplace(record.high, record.low).first->second;
    number = std::min(number, record.low);
    expect(answer == number && table.size() == least.size(), "least numbers: not the least");
  }
}

inline void fuzz_components(Settings settings) {
  const size_t documents = 1 + size_t{settings.next()} * 3;
  const size_t prior = settings.next() % (documents + 1);
  std::vector<dedup::Hash> edges;
  while (settings.rest_size() > 0)
    edges.push_back({settings.next() * size_t{3} % documents, settings.next() * size_t{5} % documents});
  std::vector<uint64_t> first(documents);
  std::iota(first.begin(), first.end(), 0);
  for (bool changed = true; changed;) {
    changed = false;
    for (const dedup::Hash& edge : edges) {
      const uint64_t least = std::min(first[edge.low], first[edge.high]);
      changed |= first[edge.low] != least || first[edge.high] != least;
      first[edge.low] = first[edge.high] = least;
    }
  }
  dedup::Components components(documents);
  components.mark(edges.data(), edges.size());
  components.join(edges.data(), edges.size());
  components.count(prior);
  std::vector<uint64_t> smallest(documents);
  std::vector<uint32_t> sizes(documents);
  components.labels(0, documents, smallest.data(), sizes.data());
  expect(smallest == first, "components: another smallest");
  for (size_t document = prior; document < documents; ++document) {
    const auto begin = first.begin() + static_cast<ptrdiff_t>(prior);
    expect(sizes[document] == std::count(begin, first.end(), first[document]), "components: another size");
  }
}

inline void fuzz_bloom(Settings settings) {
  dedup::BloomFilter filter(1 + settings.next() % 9, 1 + settings.next() % dedup::BloomFilter::kMostBits);
  const std::vector<dedup::Hash> hashes = hashes_from(settings);
  std::vector<uint8_t> first(hashes.size());
  filter.insert(hashes.data(), hashes.size(), first.data());
  std::set<dedup::Hash> seen;
  for (size_t i = 0; i < hashes.size(); ++i)
    expect(seen.insert(hashes[i]).second || first[i] == 0, "bloom: a copy was not found");
  filter.insert(hashes.data(), hashes.size(), first.data());
  expect(std::count(first.begin(), first.end(), 1) == 0, "bloom: forgot a hash");
}

inline void fuzz_pieces_of(const Column& column, dedup::Level level, uint8_t keeps) {
  const dedup::PieceHashes pieces = piece_hashes(column.view(), level);
  std::vector<uint8_t> flags(pieces.hashes.size(), 1);
  const dedup::KeptPieces all = keep_pieces(column.view(), level, flags.data(), flags.size());
  const size_t size = column.data.size();
  expect(all.data.size() == size && std::equal(column.data.begin(), column.data.end(), all.data.data()),
         "pieces: a part is missing");
  std::set<dedup::Hash> kept;
  for (size_t i = 0; i < flags.size(); ++i) {
    flags[i] = keeps >> (i % 8) & 1;
    if (flags[i] != 0) kept.insert(pieces.hashes[i]);
  }
  const dedup::KeptPieces some = keep_pieces(column.view(), level, flags.data(), flags.size());
  const text::TextColumn left{some.offsets.data(), column.rows(), some.data.data(), some.data.size()};
  left.check();
  if (level == dedup::Level::line) {
    const dedup::PieceHashes again = piece_hashes(left, level);
    for (size_t i = 0; i < again.hashes.size(); ++i)
      expect(kept.contains(again.hashes[i]), "pieces: a dropped line is still there");
  }
}

inline void fuzz_pieces(Settings settings) {
  const uint8_t keeps = settings.next();
  const Column column = cut_column(settings);
  fuzz_pieces_of(column, dedup::Level::line, keeps);
  fuzz_pieces_of(column, dedup::Level::paragraph, keeps);
}

inline void fuzz_minhash(const uint8_t* data, size_t size) {
  fuzz_fold({data, size});
  fuzz_bands({data, size});
  fuzz_lanes({data, size});
  fuzz_min_table({data, size});
  fuzz_components({data, size});
  fuzz_bloom({data, size});
  fuzz_pieces({data, size});
}

}  // namespace krill::fuzz
