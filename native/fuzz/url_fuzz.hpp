// Drives the URL filter, and aborts where it breaks its word: what is listed is found, whatever stands
// around.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/kernels_fuzz.hpp"
#include "url/url_filter.hpp"

namespace krill::fuzz {

inline void fuzz_url(const uint8_t* data, size_t size) {
  using url::Reason;
  using url::UrlFilter;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string_view lines = input.substr(0, size / 2);
  const std::string_view listed = input.substr(size / 2);
  const auto entries = static_cast<size_t>(std::count(lines.begin(), lines.end(), '\n')) + 1;
  UrlFilter filter(
      {{entries, entries, entries + 1, entries, entries}, entries, lines.size(), 2, size % 2 == 1});
  for (size_t list = 0; list < UrlFilter::kHashLists; ++list)
    filter.add_lines(static_cast<UrlFilter::List>(list), lines);
  filter.add_subwords(lines);
  filter.add_suffix("com");
  filter.add_suffix("*.ck");
  filter.add_suffix("!www.ck");
  filter.add_suffix(lines.substr(0, lines.find('\n')));
  const bool is_entry =
      listed.find_first_of("\n#") == std::string_view::npos && listed.find_first_not_of(" \t\r\v\f") == 0 &&
      !listed.empty() && static_cast<uint8_t>(listed.front()) < 0x80 &&
      static_cast<uint8_t>(listed.back()) < 0x80 && static_cast<uint8_t>(listed.front()) > 0x20 &&
      static_cast<uint8_t>(listed.back()) > 0x20;
  if (is_entry) filter.add_lines(UrlFilter::kUrls, listed);
  filter.finish();
  UrlFilter::Scratch scratch;
  const Reason found = filter.judge(listed, scratch);
  expect(!is_entry || found != Reason::none, "url: a listed URL is not found");
  const std::string whole = "http://user@" + std::string(listed) + ".com:80/" + std::string(listed);
  expect(filter.judge(whole, scratch) <= Reason::subword, "url: no such reason");
  std::string host;
  url::host_of(whole, host);
  expect(host.size() <= whole.size(), "url: a host longer than its URL");
}

}  // namespace krill::fuzz
