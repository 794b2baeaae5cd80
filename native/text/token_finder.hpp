// Finds special tokens in text: the leftmost, and of several at one position the longest.
//
// In: the tokens, once; then any bytes. Out: one occurrence after the other. Held in memory: a trie, 13 bytes
// for each distinct prefix. Nothing changes after construction, so threads may share a finder.
//
// Special tokens are rare, so almost all time is spent on positions where none begins: sixteen positions at a
// time are tested by their first two bytes if few values are possible, else one position at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace krill::text {

class TokenFinder {
 public:
  // A token is known by its index in the list; of equal ones the first counts. An empty one throws
  // std::invalid_argument.
  explicit TokenFinder(std::vector<std::string> tokens);

  struct Match {
    size_t start;
    size_t end;
    uint32_t token;
  };

  // The first occurrence that begins at `from` or later, if there is any.
  bool next(const uint8_t* text, size_t size, size_t from, Match& match) const;

  size_t longest() const { return longest_; }
  bool empty() const { return longest_ == 0; }

 private:
  static constexpr uint32_t kNoToken = 0xffffffff;

  // A node's edges stand side by side, ordered by byte.
  struct Node {
    uint32_t token = kNoToken;  // the one that ends here
    uint32_t edges_begin = 0;
    uint32_t edges_end = 0;
  };

  // Up to eight byte values, the last repeated to fill them; `any` if there are more.
  struct FewBytes {
    std::array<uint8_t, 8> values{};
    size_t count = 0;
    bool any = false;
  };

  static FewBytes few_of(const std::array<bool, 256>& present);
  void build_trie(const std::vector<std::string>& tokens);
  void collect_beginnings(const std::vector<std::string>& tokens);
  size_t next_candidate(const uint8_t* text, size_t size, size_t from) const;
  template <size_t kFirst>
  size_t skip_blocks(const uint8_t* text, size_t size, size_t from) const;
  template <size_t kFirst, size_t kSecond>
  size_t skip_blocks(const uint8_t* text, size_t size, size_t from) const;
  bool match_at(const uint8_t* text, size_t size, size_t start, Match& match) const;
  const Node* child(const Node& node, uint8_t byte) const;

  std::vector<Node> nodes_;
  std::vector<uint8_t> edge_bytes_;  // edge i leads to node i + 1: both are numbered as they are found
  std::array<uint32_t, 256> first_nodes_{};  // below the root; 0 if no token begins with the byte
  FewBytes first_;
  FewBytes second_;  // `any` also if a token is a single byte
  size_t longest_ = 0;
};

}  // namespace krill::text
