// The host of a URL, and the domain of it that somebody has registered, both as tldextract finds them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "normalize/normalizer.hpp"

namespace krill::url {

// Takes anything for a URL: what stands before the first of `/?#`, after the scheme and the user, without
// the port; the full stops of other scripts become `.`. Letters keep their case.
void host_of(std::string_view url, std::string& host);

// The rules of a public suffix list: `com`, `co.uk`, `*.ck`, `!www.ck`.
class PublicSuffixes {
 public:
  PublicSuffixes();

  // A rule, in lower case.
  void add(std::string_view rule);

  // The registered domain, one label more than the public suffix; empty if there is none. `scratch` may be
  // used again.
  std::string_view registered_domain(std::string_view host, std::string& scratch) const;

 private:
  struct TextHash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  // Of each name that ends a rule, and of each rule: whether it is one, and whether all names below it are.
  struct Node {
    bool is_rule = false;
    bool all_below = false;
  };

  void lower(std::string_view host, std::string& lowered) const;
  // How many labels of a name in lower case are its public suffix; 0 if none.
  size_t suffix_labels(std::string_view lowered) const;

  std::unordered_map<std::string, Node, TextHash, std::equal_to<>> nodes_;
  normalize::NormalizerPtr lowercase_;
};

}  // namespace krill::url
