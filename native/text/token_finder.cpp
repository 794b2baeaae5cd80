#include "text/token_finder.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "text/byte_scan.hpp"

namespace krill::text {

TokenFinder::TokenFinder(std::vector<std::string> tokens) {
  size_t bytes = 0;
  for (const std::string& token : tokens) {
    if (token.empty()) throw std::invalid_argument("a special token is empty");
    longest_ = std::max(longest_, token.size());
    bytes += token.size();
  }
  if (bytes >= std::numeric_limits<uint32_t>::max())
    throw std::invalid_argument("special tokens above 4 GiB");
  build_trie(tokens);
  collect_beginnings(tokens);
}

// Nodes are made level by level over the sorted tokens: those below a node are a range of that order, and its
// children are the subranges that agree in one byte more.
void TokenFinder::build_trie(const std::vector<std::string>& tokens) {
  std::vector<uint32_t> sorted(tokens.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  std::sort(sorted.begin(), sorted.end(), [&](uint32_t a, uint32_t b) {
    const int order = tokens[a].compare(tokens[b]);
    return order != 0 ? order < 0 : a < b;
  });

  struct Range {
    size_t begin;
    size_t end;
    size_t depth;
  };
  std::vector<Range> ranges{{0, sorted.size(), 0}};
  nodes_.emplace_back();
  for (size_t index = 0; index < nodes_.size(); ++index) {
    auto [begin, end, depth] = ranges[index];
    if (begin < end && tokens[sorted[begin]].size() == depth) {
      nodes_[index].token = sorted[begin];
      while (begin < end && tokens[sorted[begin]].size() == depth) ++begin;
    }
    nodes_[index].edges_begin = static_cast<uint32_t>(edge_bytes_.size());
    while (begin < end) {
      const auto byte = static_cast<uint8_t>(tokens[sorted[begin]][depth]);
      const size_t child_begin = begin;
      while (begin < end && static_cast<uint8_t>(tokens[sorted[begin]][depth]) == byte) ++begin;
      edge_bytes_.push_back(byte);
      nodes_.emplace_back();
      ranges.push_back({child_begin, begin, depth + 1});
    }
    nodes_[index].edges_end = static_cast<uint32_t>(edge_bytes_.size());
  }
}

void TokenFinder::collect_beginnings(const std::vector<std::string>& tokens) {
  for (uint32_t edge = nodes_[0].edges_begin; edge < nodes_[0].edges_end; ++edge)
    first_nodes_[edge_bytes_[edge]] = edge + 1;
  std::array<bool, 256> firsts{}, seconds{};
  bool single = false;
  for (const std::string& token : tokens) {
    firsts[static_cast<uint8_t>(token[0])] = true;
    if (token.size() > 1) {
      seconds[static_cast<uint8_t>(token[1])] = true;
    } else {
      single = true;
    }
  }
  first_ = few_of(firsts);
  second_ = few_of(seconds);
  second_.any |= single;
}

TokenFinder::FewBytes TokenFinder::few_of(const std::array<bool, 256>& present) {
  FewBytes few;
  size_t count = 0;
  for (size_t byte = 0; byte < present.size(); ++byte) {
    if (!present[byte]) continue;
    if (count == few.values.size()) return {few.values, count, true};
    for (size_t i = count; i < few.values.size(); ++i) few.values[i] = static_cast<uint8_t>(byte);
    few.count = ++count;
  }
  return few;
}

// Where the first block of sixteen is that may begin a token, or near the end of the text. Most tokenizers
// have one first byte, which is compared once; of the second any is right if kSecond is 0.
template <size_t kFirst, size_t kSecond>
size_t TokenFinder::skip_blocks(const uint8_t* text, size_t size, size_t at) const {
  const auto one_of = []<size_t kCount>(Bytes16 block, const FewBytes& few) {
    Bytes16 found = block.equal(few.values[0]);
    for (size_t i = 1; i < kCount; ++i) found = found | block.equal(few.values[i]);
    return found;
  };
  for (; size - at > 16; at += 16) {
    Bytes16 hits = one_of.template operator()<kFirst>(Bytes16::load(text + at), first_);
    if constexpr (kSecond > 0)
      hits = hits & one_of.template operator()<kSecond>(Bytes16::load(text + at + 1), second_);
    const Matches matches = hits.matches();
    if (matches.any()) return at + matches.first();
  }
  return at;
}

template <size_t kFirst>
size_t TokenFinder::skip_blocks(const uint8_t* text, size_t size, size_t from) const {
  if (second_.any || second_.count > 4) return skip_blocks<kFirst, 0>(text, size, from);
  return second_.count == 1 ? skip_blocks<kFirst, 1>(text, size, from)
                            : skip_blocks<kFirst, 4>(text, size, from);
}

// The first position that may begin a token, or `size`.
size_t TokenFinder::next_candidate(const uint8_t* text, size_t size, size_t from) const {
  size_t at = from;
  if (!first_.any)
    at = first_.count == 1   ? skip_blocks<1>(text, size, at)
         : first_.count <= 4 ? skip_blocks<4>(text, size, at)
         : first_.count <= 6 ? skip_blocks<6>(text, size, at)
                             : skip_blocks<8>(text, size, at);
  while (at < size && first_nodes_[text[at]] == 0) ++at;
  return at;
}

const TokenFinder::Node* TokenFinder::child(const Node& node, uint8_t byte) const {
  const uint8_t* begin = edge_bytes_.data() + node.edges_begin;
  const uint8_t* end = edge_bytes_.data() + node.edges_end;
  const uint8_t* edge = std::lower_bound(begin, end, byte);
  if (edge == end || *edge != byte) return nullptr;
  return &nodes_[static_cast<size_t>(edge - edge_bytes_.data()) + 1];
}

// At a position where a token may begin.
bool TokenFinder::match_at(const uint8_t* text, size_t size, size_t start, Match& match) const {
  const Node* node = &nodes_[first_nodes_[text[start]]];
  bool found = false;
  for (size_t at = start + 1; node != nullptr; ++at) {
    if (node->token != kNoToken) {
      match = {start, at, node->token};
      found = true;
    }
    node = at < size ? child(*node, text[at]) : nullptr;
  }
  return found;
}

bool TokenFinder::next(const uint8_t* text, size_t size, size_t from, Match& match) const {
  if (empty() || from >= size) return false;
  for (size_t at = from;; ++at) {
    at = next_candidate(text, size, at);
    if (at == size) return false;
    if (match_at(text, size, at, match)) return true;
  }
}

}  // namespace krill::text
