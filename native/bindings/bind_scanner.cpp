#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"
#include "regex/regex.hpp"
#include "text/scanner.hpp"
#include "text/token_finder.hpp"
#include "tokenizer/scanner_pattern.hpp"

namespace krill::bindings {

namespace {

std::optional<text::Pattern> pattern_of_regex(const std::string& pattern) {
  try {
    const regex::Regex regex(pattern);
    return regex.is_dfa() ? tokenizer::pattern_of(*regex.dfa()) : std::nullopt;
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

std::optional<std::string> scanner_regex(const std::string& regex) {
  const auto pattern = pattern_of_regex(regex);
  if (!pattern) return std::nullopt;
  return tokenizer::regex_of(*pattern);
}

Out<uint32_t> scan_all_words(nb::handle data, const std::string& pattern, bool plainly) {
  auto known = text::pattern_named(pattern);
  if (!known) known = pattern_of_regex(pattern);
  if (!known) throw std::invalid_argument("no pattern is named `" + pattern + "`");
  const ByteView text(data);
  if (text.size() > UINT32_MAX) throw std::invalid_argument("a text must be smaller than 4 GiB");
  Buffer<uint32_t> ends = [&] {
    nb::gil_scoped_release release;
    Buffer<uint32_t> room(text.size() + text::kScanRoom);
    const auto scan = plainly ? text::scan_words_plainly : text::scan_words;
    room.trim(scan(*known, text.data(), text.size(), 0, room.data(), room.size()));
    return room;
  }();
  return to_numpy(std::move(ends));
}

size_t last_cut_of(nb::handle data) {
  const ByteView text(data);
  nb::gil_scoped_release release;
  return text::last_cut(text.data(), text.size());
}

size_t first_cut_of(nb::handle data, size_t from) {
  const ByteView text(data);
  nb::gil_scoped_release release;
  return text::first_cut(text.data(), text.size(), from);
}

std::vector<std::string> strings_of(const nb::list& tokens) {
  std::vector<std::string> strings;
  for (const nb::handle token : tokens) {
    if (!nb::isinstance<nb::bytes>(token)) throw nb::type_error("tokens must be bytes");
    const auto bytes = nb::borrow<nb::bytes>(token);
    strings.emplace_back(bytes.c_str(), bytes.size());
  }
  return strings;
}

template <class T, class Field>
Out<T> column_of(const std::vector<text::TokenFinder::Match>& matches, Field field) {
  Buffer<T> column(matches.size());
  std::transform(matches.begin(), matches.end(), column.data(), field);
  return to_numpy(std::move(column));
}

nb::tuple find_all_tokens(nb::handle data, const nb::list& tokens) {
  using Match = text::TokenFinder::Match;
  const text::TokenFinder finder(strings_of(tokens));
  const ByteView text(data);
  std::vector<Match> matches;
  {
    nb::gil_scoped_release release;
    Match match{};
    while (finder.next(text.data(), text.size(), match.end, match)) matches.push_back(match);
  }
  return nb::make_tuple(column_of<uint64_t>(matches, [](const Match& match) { return match.start; }),
                        column_of<uint64_t>(matches, [](const Match& match) { return match.end; }),
                        column_of<uint32_t>(matches, [](const Match& match) { return match.token; }));
}

}  // namespace

void bind_scanner(nb::module_& m) {
  m.def("scan_words", &scan_all_words, nb::arg("data"), nb::arg("pattern"), nb::arg("plainly") = false);
  m.def("scanner_regex", &scanner_regex, nb::arg("regex"));
  m.def("last_cut", &last_cut_of, nb::arg("data"));
  m.def("first_cut", &first_cut_of, nb::arg("data"), nb::arg("from_"));
  m.def("find_tokens", &find_all_tokens, nb::arg("data"), nb::arg("tokens"));
}

}  // namespace krill::bindings
