// Drives the kernels behind the readers with columns, offsets and hashes taken from the input, holds them to
// slow and obvious versions, and aborts where they differ.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "dedup/hash.hpp"
#include "dedup/hash_set.hpp"
#include "dedup/partition.hpp"
#include "fuzz/readers_fuzz.hpp"
#include "pack/token_batch.hpp"
#include "text/clean.hpp"
#include "text/column.hpp"
#include "text/pick.hpp"

namespace krill::fuzz {

inline void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "kernels: %s\n", what);
  std::abort();
}

// A column in allocations of exactly its size, so that a sanitizer sees a read beyond them.
struct Column {
  std::vector<int64_t> offsets;
  std::vector<uint8_t> data;

  size_t rows() const { return offsets.size() - 1; }
  text::TextColumn view() const { return {offsets.data(), rows(), data.data(), data.size()}; }
  std::string row(size_t index) const {
    return {data.begin() + offsets[index], data.begin() + offsets[index + 1]};
  }
};

// The rest of the input, cut into documents whose lengths the settings give.
inline Column cut_column(Settings& settings) {
  const std::vector<size_t> sizes = cut_sizes(settings);
  Column column{{0}, {settings.rest(), settings.rest() + settings.rest_size()}};
  for (size_t at = 0, turn = 0; at < column.data.size(); ++turn) {
    at = std::min(at + sizes[turn % sizes.size()] - 1 + turn % 2, column.data.size());
    column.offsets.push_back(static_cast<int64_t>(at));
  }
  return column;
}

// One code point from the front, by arithmetic, or nothing if the bytes there are not UTF-8.
inline std::optional<uint32_t> decode_front(const std::string& text, size_t at, size_t& length) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[at + i]); };
  const uint32_t lead = byte(0);
  length = lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if ((lead >= 0x80 && lead < 0xc0) || lead >= 0xf8 || at + length > text.size()) return std::nullopt;
  uint32_t point = length == 1 ? lead : lead & (0xffu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xbf) return std::nullopt;
    point = point << 6 | (byte(i) & 0x3fu);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (point < kLeast[length] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return std::nullopt;
  return point;
}

inline bool is_space(uint32_t point) {
  for (const uint32_t space : {0x20u, 0x85u, 0xa0u, 0x1680u, 0x2028u, 0x2029u, 0x202fu, 0x205fu, 0x3000u})
    if (point == space) return true;
  return (point >= 0x9 && point <= 0xd) || (point >= 0x1c && point <= 0x1f) ||
         (point >= 0x2000 && point <= 0x200a);
}

struct Reference {
  std::string text;
  size_t chars;
  bool repaired;
};

inline Reference reference_clean(const std::string& text, bool strip) {
  std::vector<std::pair<std::string, bool>> kept;  // characters, and whether they are whitespace
  bool repaired = false;
  for (size_t at = 0; at < text.size();) {
    size_t length = 1;
    if (const auto point = decode_front(text, at, length)) {
      kept.emplace_back(text.substr(at, length), is_space(*point));
      at += length;
    } else {
      repaired = true;
      ++at;
    }
  }
  if (strip) {
    while (!kept.empty() && kept.back().second) kept.pop_back();
    while (!kept.empty() && kept.front().second) kept.erase(kept.begin());
  }
  std::string joined;
  for (const auto& [character, space] : kept) joined += character;
  return {joined, kept.size(), repaired};
}

inline Column column_of(const text::CleanColumn& cleaned) {
  return {{cleaned.offsets.data(), cleaned.offsets.data() + cleaned.offsets.size()},
          {cleaned.data.data(), cleaned.data.data() + cleaned.data.size()}};
}

inline void fuzz_clean_column(Settings settings) {
  const bool strip = settings.flag();
  const int64_t min_chars = settings.next() % 8;
  const uint8_t nulls = settings.next();
  const Column column = cut_column(settings);
  std::vector<uint8_t> null_mask(column.rows());
  for (size_t row = 0; row < column.rows(); ++row) null_mask[row] = nulls >> (row % 8) & 1;

  const text::CleanColumn cleaned = clean(column.view(), null_mask.data(), strip, min_chars);
  const Column result = column_of(cleaned);
  result.view().check();
  text::CleanCounts counts;
  size_t next = 0;
  for (size_t row = 0; row < column.rows(); ++row) {
    if (null_mask[row] != 0) {
      ++counts.not_text;
      continue;
    }
    const Reference expected = reference_clean(column.row(row), strip);
    counts.invalid_utf8 += expected.repaired;
    if (static_cast<int64_t>(expected.chars) < min_chars) {
      ++counts.too_short;
      continue;
    }
    expect(next < cleaned.kept.size() && cleaned.kept[next] == static_cast<int64_t>(row), "clean: rows");
    expect(cleaned.chars[next] == expected.chars, "clean: code points");
    expect(result.row(next) == expected.text, "clean: text");
    ++next;
  }
  expect(next == cleaned.kept.size() && next == result.rows(), "clean: more rows than expected");
  expect(counts.not_text == cleaned.counts.not_text && counts.too_short == cleaned.counts.too_short &&
             counts.invalid_utf8 == cleaned.counts.invalid_utf8,
         "clean: counts");

  const Column again = column_of(text::clean(result.view(), nullptr, strip, min_chars));
  expect(again.offsets == result.offsets && again.data == result.data, "clean: not idempotent");
}

// Whatever passes the check may be read.
inline void fuzz_offsets(Settings settings) {
  const bool small = settings.flag();
  Column column;
  for (size_t i = 0; i <= settings.rest_size() / 8; ++i) {
    uint64_t word = 0;
    for (int byte = 0; byte < 8; ++byte) word = word << 8 | settings.next();
    column.offsets.push_back(static_cast<int64_t>(small ? word % 64 : word));
  }
  column.data.assign(settings.rest(), settings.rest() + settings.rest_size());
  try {
    column.view().check();
  } catch (const std::invalid_argument&) {
    return;
  }
  text::clean(column.view(), nullptr, true, 0);
  dedup::hash_documents(column.view(), 0);
  pack::encode_bytes(column.view(), 256);
}

inline void fuzz_hash(Settings settings) {
  const Column column = cut_column(settings);
  const Buffer<dedup::Hash> hashes = dedup::hash_documents(column.view(), 7);
  for (size_t row = 0; row < column.rows(); ++row) {
    // The same bytes at another alignment.
    std::vector<uint8_t> moved{0};
    moved.insert(moved.end(), column.view().begin(row), column.view().begin(row) + column.view().size(row));
    expect(hashes[row] == dedup::hash_bytes(moved.data() + 1, moved.size() - 1, 7),
           "hash: depends on its place");
  }
}

// Few distinct hashes, the all-zero one and neighbours in the table among them.
inline std::vector<dedup::Hash> hashes_from(Settings settings) {
  std::vector<dedup::Hash> hashes;
  while (settings.rest_size() > 0) {
    const uint64_t low = settings.next();
    hashes.push_back({low % 3 == 0 ? low : low << 56, low % 5 == 0 ? 0 : uint64_t{settings.next()} << 60});
  }
  return hashes;
}

inline void fuzz_hash_set(Settings settings) {
  dedup::HashSet table(32 + size_t{settings.next()} * 16);
  const std::vector<dedup::Hash> hashes = hashes_from(settings);
  std::set<dedup::Hash> seen;
  for (const dedup::Hash& hash : hashes) {
    uint8_t first = 2;
    const bool is_new = !seen.contains(hash);
    const size_t in_table = seen.size() - seen.contains(dedup::Hash{0, 0});
    try {
      table.insert(&hash, 1, &first);
    } catch (const dedup::TableFull&) {
      expect(is_new && hash != dedup::Hash{0, 0} && in_table == table.max_keys(), "hash set: full too early");
      break;
    }
    expect(first == is_new, "hash set: not a set");
    seen.insert(hash);
  }
  expect(table.size() == seen.size(), "hash set: size");
}

inline void fuzz_partition(Settings settings) {
  const unsigned width = 1 + settings.next() % dedup::Digit::kMaxWidth;
  const dedup::Digit digit{settings.next() % (129 - width), width};
  digit.check();
  const std::vector<dedup::Hash> hashes = hashes_from(settings);
  const dedup::Partitioned parts = partition_hashes(hashes.data(), hashes.size(), digit);
  std::vector<uint8_t> flags(hashes.size());
  size_t at = 0;
  for (size_t p = 0; p < digit.partitions(); ++p) {
    for (int64_t i = 0; i < parts.counts[p]; ++i, ++at) {
      expect(digit.of(parts.hashes[at]) == p, "partition: a hash in the wrong one");
      flags[at] = static_cast<uint8_t>(parts.hashes[at].low ^ parts.hashes[at].high >> 60);
    }
  }
  expect(at == hashes.size(), "partition: hashes are missing");
  const Buffer<uint8_t> joined = dedup::join_flags(hashes.data(), hashes.size(), digit, flags.data());
  for (size_t i = 0; i < hashes.size(); ++i)
    expect(joined[i] == static_cast<uint8_t>(hashes[i].low ^ hashes[i].high >> 60), "join: wrong flag");
}

inline void fuzz_runs(Settings settings) {
  const uint8_t keeps = settings.next();
  const Column column = cut_column(settings);
  const pack::TokenBatch<uint16_t> runs = pack::encode_bytes(column.view(), 256);
  std::vector<uint8_t> keep(column.rows());
  std::vector<uint16_t> expected;
  for (size_t row = 0; row < column.rows(); ++row) {
    keep[row] = keeps >> (row % 8) & 1;
    if (keep[row] == 0) continue;
    for (const char byte : column.row(row)) expected.push_back(static_cast<uint8_t>(byte));
    expected.push_back(256);
  }
  const pack::TokenBatch<uint16_t> kept =
      pack::select_documents(runs.ids.data(), runs.ids.size(), runs.lengths.data(), keep.data(), keep.size());
  expect(std::vector(kept.ids.data(), kept.ids.data() + kept.ids.size()) == expected, "runs: ids");
}

inline void fuzz_pick(Settings settings) {
  const uint8_t keeps = settings.next();
  const Column column = cut_column(settings);
  std::vector<uint8_t> keep(column.rows());
  for (size_t row = 0; row < column.rows(); ++row) keep[row] = keeps >> (row % 8) & 1;
  const text::PickedColumn picked = pick_texts(column.view(), keep.data());
  size_t at = 0;
  for (size_t row = 0; row < column.rows(); ++row) {
    if (keep[row] == 0) continue;
    const auto begin = static_cast<size_t>(picked.offsets[at]);
    const auto end = static_cast<size_t>(picked.offsets[++at]);
    const std::string found(reinterpret_cast<const char*>(picked.data.data()) + begin, end - begin);
    expect(found == column.row(row), "pick: another text");
  }
  expect(at + 1 == picked.offsets.size(), "pick: rows are missing");
}

inline void fuzz_clean(const uint8_t* data, size_t size) {
  fuzz_clean_column({data, size});
  fuzz_offsets({data, size});
}

inline void fuzz_dedup(const uint8_t* data, size_t size) {
  fuzz_hash({data, size});
  fuzz_hash_set({data, size});
  fuzz_partition({data, size});
}

inline void fuzz_tokens(const uint8_t* data, size_t size) {
  fuzz_runs({data, size});
  fuzz_pick({data, size});
}

}  // namespace krill::fuzz
