#include "url/host.hpp"

#include <algorithm>
#include <iterator>

#include "text/utf8.hpp"

namespace krill::url {

namespace {

using namespace std::string_view_literals;

// What may stand between labels besides `.`: ideographic, full-width and half-width full stops.
constexpr std::string_view kOtherDots[] = {"\xe3\x80\x82"sv, "\xef\xbc\x8e"sv, "\xef\xbd\xa1"sv};

bool is_scheme_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' || c == '-' ||
         c == '.';
}

std::string_view without_scheme(std::string_view url) {
  const size_t slashes = url.find("//");
  if (slashes == 0) return url.substr(2);
  if (slashes == std::string_view::npos || slashes < 2 || url[slashes - 1] != ':') return url;
  const std::string_view scheme = url.substr(0, slashes - 1);
  return std::all_of(scheme.begin(), scheme.end(), is_scheme_character) ? url.substr(slashes + 2) : url;
}

std::string_view stripped(std::string_view text) {
  const auto bytes = [&] { return reinterpret_cast<const uint8_t*>(text.data()); };
  text.remove_prefix(text::leading_whitespace(bytes(), text.size()).bytes);
  text.remove_suffix(text::trailing_whitespace(bytes(), text.size()).bytes);
  return text;
}

bool remove_dot(std::string_view& text) {
  if (text.ends_with('.')) {
    text.remove_suffix(1);
    return true;
  }
  for (const std::string_view dot : kOtherDots)
    if (text.ends_with(dot)) {
      text.remove_suffix(dot.size());
      return true;
    }
  return false;
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<uint8_t>(c) < 0x80; });
}

// The last `labels` labels of a name.
std::string_view last_labels(std::string_view name, size_t labels) {
  size_t at = name.size();
  for (; labels > 0; --labels) {
    at = at == 0 ? std::string_view::npos : name.rfind('.', at - 1);
    if (at == std::string_view::npos) return name;
  }
  return name.substr(at + 1);
}

}  // namespace

void host_of(std::string_view url, std::string& host) {
  std::string_view rest = without_scheme(url);
  rest = rest.substr(0, rest.find_first_of("/?#"));
  if (const size_t at = rest.rfind('@'); at != std::string_view::npos) rest.remove_prefix(at + 1);
  const size_t bracket = rest.starts_with('[') ? rest.find(']') : std::string_view::npos;
  if (bracket != std::string_view::npos) {
    rest = rest.substr(0, bracket + 1);
  } else {
    rest = stripped(rest.substr(0, rest.find(':')));
    while (remove_dot(rest)) {
    }
  }
  if (is_ascii(rest)) {
    host.assign(rest);
    return;
  }
  host.clear();
  while (!rest.empty()) {
    const auto dot = std::find_if(std::begin(kOtherDots), std::end(kOtherDots),
                                  [&](std::string_view text) { return rest.starts_with(text); });
    host.push_back(dot == std::end(kOtherDots) ? rest.front() : '.');
    rest.remove_prefix(dot == std::end(kOtherDots) ? 1 : dot->size());
  }
}

PublicSuffixes::PublicSuffixes() : lowercase_(normalize::make_lowercase()) {}

void PublicSuffixes::add(std::string_view rule) {
  if (rule.empty()) return;
  nodes_[std::string(rule)].is_rule = true;
  for (std::string_view name = rule; !name.empty();) {
    const size_t dot = name.find('.');
    const std::string_view label = name.substr(0, dot);
    name = dot == std::string_view::npos ? std::string_view() : name.substr(dot + 1);
    Node& above = nodes_[std::string(name)];
    above.all_below |= label == "*";
  }
}

void PublicSuffixes::lower(std::string_view host, std::string& lowered) const {
  if (is_ascii(host)) {
    lowered.assign(host);
    for (char& c : lowered)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
    return;
  }
  normalize::Text text;
  text.assign(reinterpret_cast<const uint8_t*>(host.data()), host.size());
  lowercase_->apply(text);
  lowered.assign(reinterpret_cast<const char*>(text.data()), text.size());
}

size_t PublicSuffixes::suffix_labels(std::string_view lowered) const {
  auto node = nodes_.find(std::string_view());
  if (node == nodes_.end()) return 0;
  size_t labels = 0;
  size_t found = 0;
  size_t begin = lowered.size() + 1;  // of the last name that is a node
  while (begin > 0) {
    const size_t end = begin - 1;
    const size_t dot = end == 0 ? std::string_view::npos : lowered.rfind('.', end - 1);
    const size_t next = dot == std::string_view::npos ? 0 : dot + 1;
    const auto below = nodes_.find(lowered.substr(next));
    if (below == nodes_.end() || lowered.substr(next).empty()) {
      if (!node->second.all_below) break;
      const bool is_exception = nodes_.contains("!" + std::string(lowered.substr(next)));
      return is_exception ? labels : labels + 1;
    }
    node = below;
    ++labels;
    if (node->second.is_rule) found = labels;
    begin = next;
  }
  return found;
}

std::string_view PublicSuffixes::registered_domain(std::string_view host, std::string& scratch) const {
  lower(host, scratch);
  const size_t labels = suffix_labels(scratch);
  if (labels == 0) return {};
  const std::string_view domain = last_labels(host, labels + 1);
  const bool has_label = !domain.starts_with('.') && domain.size() != last_labels(host, labels).size();
  return has_label ? domain : std::string_view();
}

}  // namespace krill::url
