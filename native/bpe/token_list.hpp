// The vocabulary during training: the bytes of each token, and the id of a string.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "bpe/pair_table.hpp"

namespace krill::bpe {

class TokenList {
 public:
  explicit TokenList(const std::vector<std::optional<std::string>>& tokens) {
    for (const auto& token : tokens) {
      if (token) ids_.emplace(*token, static_cast<uint32_t>(texts_.size()));
      texts_.push_back(token.value_or(std::string()));
    }
  }

  size_t size() const { return texts_.size(); }
  const std::string& text(uint32_t id) const { return texts_[id]; }
  const std::vector<std::string>& texts() const { return texts_; }

  // The token that a pair becomes: a new one, or a special token of the same text.
  uint32_t join(Pair pair) {
    std::string text = texts_[left_of(pair)] + texts_[right_of(pair)];
    const auto [found, is_new] = ids_.emplace(text, static_cast<uint32_t>(texts_.size()));
    if (is_new) texts_.push_back(std::move(text));
    return found->second;
  }

  // Whether (left bytes, right bytes) of `a` are lexicographically greater than those of `b`.
  bool greater(Pair a, Pair b) const {
    const int left = texts_[left_of(a)].compare(texts_[left_of(b)]);
    return left != 0 ? left > 0 : texts_[right_of(a)] > texts_[right_of(b)];
  }

 private:
  std::vector<std::string> texts_;
  std::unordered_map<std::string, uint32_t> ids_;
};

}  // namespace krill::bpe
