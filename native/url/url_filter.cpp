#include "url/url_filter.hpp"

#include <algorithm>

#include "text/utf8.hpp"

namespace krill::url {

namespace {

// A name in the DNS has no more bytes: of a longer host, only its end can be a listed one.
constexpr size_t kLongestName = 253;

bool is_word_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

void lower(std::string& text) {
  for (char& c : text) c = lower(c);
}

void keep_word_characters(std::string_view text, std::string& kept) {
  kept.clear();
  for (const char c : text)
    if (is_word_character(c)) kept.push_back(lower(c));
}

// Calls `use` with each line that is an entry.
template <class Use>
void for_entries(std::string_view lines, Use use) {
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    std::string_view line = lines.substr(0, end);
    lines.remove_prefix(std::min(end + 1, lines.size()));
    if (line.starts_with('#')) continue;
    line.remove_prefix(
        text::leading_whitespace(reinterpret_cast<const uint8_t*>(line.data()), line.size()).bytes);
    line.remove_suffix(
        text::trailing_whitespace(reinterpret_cast<const uint8_t*>(line.data()), line.size()).bytes);
    if (!line.empty()) use(line);
  }
}

}  // namespace

UrlFilter::UrlFilter(const Options& options)
    : lists_{HashList(options.entries[kDomains]), HashList(options.entries[kHosts]),
             HashList(options.entries[kUrls]), HashList(options.entries[kWords]),
             HashList(options.entries[kSoftWords])},
      subwords_(options.subwords, options.subword_bytes, false),
      soft_word_threshold_(options.soft_word_threshold),
      ignore_case_(options.ignore_case) {}

void UrlFilter::add_lines(List list, std::string_view lines) {
  const bool words = list == kWords || list == kSoftWords;
  const bool lowered = ignore_case_ && (list == kDomains || list == kHosts);
  std::string changed;
  for_entries(lines, [&](std::string_view entry) {
    if (words) {
      keep_word_characters(entry, changed);
      if (changed.empty()) return;
      entry = changed;
    } else if (lowered) {
      changed.assign(entry);
      lower(changed);
      entry = changed;
    }
    lists_[list].add(entry);
  });
}

void UrlFilter::add_subwords(std::string_view lines) {
  std::string kept;
  for_entries(lines, [&](std::string_view entry) {
    keep_word_characters(entry, kept);
    if (kept.empty()) return;
    subwords_.add(kept);
    ++subword_count_;
  });
}

void UrlFilter::finish() {
  for (HashList& list : lists_) list.finish();
  subwords_.finish();
}

size_t UrlFilter::size() const {
  size_t entries = subword_count_;
  for (const HashList& list : lists_) entries += list.size();
  return entries;
}

std::array<uint64_t, UrlFilter::kHashLists> UrlFilter::fingerprints() const {
  std::array<uint64_t, kHashLists> found;
  for (size_t list = 0; list < kHashLists; ++list) found[list] = lists_[list].fingerprint();
  return found;
}

Reason UrlFilter::judge(std::string_view url, Scratch& scratch) const {
  if (lists_[kDomains].size() > 0 || lists_[kHosts].size() > 0) {
    host_of(url, scratch.host);
    if (ignore_case_) lower(scratch.host);
    if (const Reason found = judge_host(scratch); found != Reason::none) return found;
  }
  if (lists_[kUrls].has(url)) return Reason::url;
  if (lists_[kWords].size() > 0 || lists_[kSoftWords].size() > 0)
    if (const Reason found = judge_words(url, scratch); found != Reason::none) return found;
  return subword_count_ > 0 && has_subword(url, scratch) ? Reason::subword : Reason::none;
}

Reason UrlFilter::judge_host(Scratch& scratch) const {
  const std::string_view host = scratch.host;
  if (lists_[kDomains].size() > 0) {
    const std::string_view domain = suffixes_.registered_domain(host, scratch.lowered);
    if (!domain.empty()) {
      if (lists_[kDomains].has(domain)) return Reason::domain;
      // An empty label before the domain is nothing.
      if (host.size() > domain.size() + 1 && lists_[kDomains].has(host)) return Reason::subdomain;
    }
  }
  if (lists_[kHosts].size() == 0) return Reason::none;
  size_t at = 0;
  if (host.size() > kLongestName)
    at = std::min(host.find('.', host.size() - kLongestName - 1), host.size() - 1) + 1;
  while (at < host.size()) {
    if (lists_[kHosts].has(host.substr(at))) return Reason::host;
    at = std::min(host.find('.', at), host.size() - 1) + 1;
  }
  return Reason::none;
}

Reason UrlFilter::judge_words(std::string_view url, Scratch& scratch) const {
  std::vector<uint64_t>& soft = scratch.soft_words;
  soft.clear();
  for (size_t at = 0; at < url.size();) {
    if (!is_word_character(url[at])) {
      ++at;
      continue;
    }
    const size_t begin = at;
    while (at < url.size() && is_word_character(url[at])) ++at;
    std::string_view word = url.substr(begin, at - begin);
    if (ignore_case_) {
      scratch.lowered.assign(word);
      lower(scratch.lowered);
      word = scratch.lowered;
    }
    const uint64_t hash = HashList::hash_of(word);
    if (lists_[kWords].has(hash)) return Reason::word;
    if (soft.size() < soft_word_threshold_ && lists_[kSoftWords].has(hash) &&
        std::find(soft.begin(), soft.end(), hash) == soft.end())
      soft.push_back(hash);
  }
  return soft.size() >= soft_word_threshold_ ? Reason::soft_words : Reason::none;
}

bool UrlFilter::has_subword(std::string_view url, Scratch& scratch) const {
  keep_word_characters(url, scratch.lowered);
  return subwords_.found_in(scratch.lowered, scratch.folded);
}

}  // namespace krill::url
