// Which URLs are listed, by domain, host, as a whole, or by words in them.
//
// The decisions are those of datatrove's URLFilter, except for hosts, which it does not have.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/literal_set.hpp"
#include "url/hash_list.hpp"
#include "url/host.hpp"

namespace krill::url {

// Why a URL is listed; the first that holds counts.
enum class Reason : uint8_t { none, domain, subdomain, host, url, word, soft_words, subword };

class UrlFilter {
 public:
  enum List : size_t { kDomains, kHosts, kUrls, kWords, kSoftWords, kHashLists };

  struct Options {
    std::array<size_t, kHashLists> entries;  // how many there will be, at most
    size_t subwords;
    size_t subword_bytes;
    size_t soft_word_threshold;
    bool ignore_case;  // of hosts and words
  };

  // What `judge` works in; used again for the next URL.
  struct Scratch {
    std::string host;
    std::string lowered;
    std::vector<uint64_t> soft_words;
    std::vector<char> folded;
  };

  explicit UrlFilter(const Options& options);

  // An entry of a list for each line. Whitespace around it is left out; so are empty lines and those that
  // begin with `#`. Of words, ASCII letters and digits alone are kept, in lower case.
  void add_lines(List list, std::string_view lines);
  void add_subwords(std::string_view lines);
  void add_suffix(std::string_view rule) { suffixes_.add(rule); }
  void finish();

  // Entries of all lists.
  size_t size() const;
  // Of the lists of hashes.
  std::array<uint64_t, kHashLists> fingerprints() const;
  Reason judge(std::string_view url, Scratch& scratch) const;

 private:
  Reason judge_host(Scratch& scratch) const;
  Reason judge_words(std::string_view url, Scratch& scratch) const;
  bool has_subword(std::string_view url, Scratch& scratch) const;

  std::array<HashList, kHashLists> lists_;
  text::LiteralSet subwords_;
  size_t subword_count_ = 0;
  PublicSuffixes suffixes_;
  size_t soft_word_threshold_;
  bool ignore_case_;
};

}  // namespace krill::url
