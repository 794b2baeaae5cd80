#include "regex/symbols.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace krill::regex {
namespace {

constexpr size_t kPagePoints = 256;

struct Border {
  uint32_t point;
  uint32_t set;
  bool operator<(const Border& other) const { return point < other.point; }
};

std::vector<Border> borders_of(const std::vector<CodeSet>& sets) {
  std::vector<Border> borders;
  for (uint32_t set = 0; set < sets.size(); ++set) {
    for (const Range& range : sets[set].ranges()) {
      borders.push_back({range.first, set});
      borders.push_back({range.last + 1, set});
    }
  }
  std::stable_sort(borders.begin(), borders.end());
  return borders;
}

}  // namespace

bool Symbols::build(const std::vector<CodeSet>& sets) {
  set_symbols_.resize(sets.size());
  const std::vector<Border> borders = borders_of(sets);
  std::vector<uint8_t> symbols(kLastPoint + 1);
  std::map<std::vector<bool>, uint8_t> numbers;
  std::vector<bool> inside(sets.size());
  size_t next = 0;
  for (uint32_t point = 0; point <= kLastPoint;) {
    for (; next < borders.size() && borders[next].point == point; ++next) inside[borders[next].set].flip();
    const uint32_t end = next < borders.size() ? borders[next].point : kLastPoint + 1;
    const auto found = numbers.emplace(inside, static_cast<uint8_t>(numbers.size()));
    if (numbers.size() > kMostSymbols) return false;
    const uint8_t symbol = found.first->second;
    if (found.second) {
      for (size_t set = 0; set < sets.size(); ++set) set_symbols_[set][symbol] = inside[set];
    }
    std::fill(symbols.begin() + point, symbols.begin() + end, symbol);
    point = end;
  }
  count_ = numbers.size();
  std::copy_n(symbols.begin(), ascii_.size(), ascii_.begin());
  std::map<std::string, uint32_t> pages;
  for (size_t begin = 0; begin < symbols.size(); begin += kPagePoints) {
    const auto page = symbols.begin() + static_cast<ptrdiff_t>(begin);
    const auto found =
        pages.emplace(std::string(page, page + kPagePoints), static_cast<uint32_t>(pages_.size()));
    if (found.second) pages_.insert(pages_.end(), page, page + kPagePoints);
    page_of_.push_back(found.first->second);
  }
  return true;
}

bool Symbols::join(const std::vector<const Symbols*>& parts,
                   std::vector<std::vector<uint8_t>>& part_symbols) {
  part_symbols.assign(parts.size(), {});
  reads_bytes_ = parts[0]->reads_bytes_;
  if (!std::ranges::all_of(parts, [&](const Symbols* part) { return part->reads_bytes_ == reads_bytes_; }))
    return false;
  std::map<std::vector<uint32_t>, uint8_t> numbers;
  std::map<std::vector<uint32_t>, uint32_t> pages;
  std::vector<uint32_t> key(parts.size());
  std::vector<uint32_t> each(parts.size());
  for (uint32_t page = 0; page <= kLastPoint / kPagePoints; ++page) {
    std::transform(parts.begin(), parts.end(), key.begin(),
                   [&](const Symbols* part) { return part->page_of_[page]; });
    const auto known = pages.emplace(key, static_cast<uint32_t>(pages_.size()));
    page_of_.push_back(known.first->second);
    if (!known.second) continue;
    for (size_t at = 0; at < kPagePoints; ++at) {
      for (size_t part = 0; part < parts.size(); ++part) each[part] = parts[part]->pages_[key[part] + at];
      const auto found = numbers.emplace(each, static_cast<uint8_t>(numbers.size()));
      if (numbers.size() > kMostSymbols) return false;
      pages_.push_back(found.first->second);
      for (size_t part = 0; found.second && part < parts.size(); ++part)
        part_symbols[part].push_back(static_cast<uint8_t>(each[part]));
    }
  }
  count_ = numbers.size();
  std::copy_n(pages_.begin() + page_of_[0], ascii_.size(), ascii_.begin());
  return true;
}

Symbols Symbols::over_bytes(std::span<const uint16_t, 256> points) const {
  Symbols bytes;
  bytes.count_ = count_;
  bytes.reads_bytes_ = true;
  bytes.set_symbols_ = set_symbols_;
  bytes.page_of_.assign(page_of_.size(), 0);
  for (const uint16_t point : points) bytes.pages_.push_back(of_point(point));
  std::copy_n(bytes.pages_.begin(), ascii_.size(), bytes.ascii_.begin());
  return bytes;
}

}  // namespace krill::regex
