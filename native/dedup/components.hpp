// Which documents hang together: connected components over edges between document numbers, each named by its
// smallest.
//
// Edges are shown twice: first to mark who has any, then to join. Held: a bit and an eighth for each
// document, and from the second showing on four bytes for each document that has an edge, and four more once
// components are counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "buffer.hpp"
#include "dedup/hash.hpp"

namespace krill {

class Components {
 public:
  explicit Components(std::uint64_t documents);

  // Edges are hashes in form: two document numbers. Throws std::out_of_range for numbers there are none of.
  void mark(const Hash* edges, std::size_t count);
  // Documents with an edge. Throws std::length_error above 2^32 - 1.
  std::uint64_t members();
  // Throws std::invalid_argument for an edge that was not marked.
  void join(const Hash* edges, std::size_t count);

  struct Summary {
    std::uint64_t clusters;  // with a document that is not kept
    std::uint64_t largest;   // documents of the largest
  };
  // Counts components; documents below `prior` are not counted, but whoever hangs together with one is not
  // kept.
  Summary count(std::uint64_t prior);

  // The smallest document of the component, and how many it has, for documents first..first+count-1; after
  // `count`.
  void labels(std::uint64_t first, std::size_t count, std::uint64_t* smallest, std::uint32_t* sizes) const;

 private:
  std::uint32_t rank(std::uint64_t document) const;
  std::uint64_t document(std::uint32_t member) const;
  bool marked(std::uint64_t document) const { return bits_[document / 64] >> (document % 64) & 1; }
  void check(const Hash& edge) const;
  std::uint32_t root(std::uint32_t member);
  Buffer<std::uint32_t>& parents();

  std::uint64_t documents_;
  Buffer<std::uint64_t> bits_;
  Buffer<std::uint32_t> ranks_;  // members before each 256 documents
  std::optional<Buffer<std::uint32_t>> parents_;
  std::optional<Buffer<std::uint32_t>> sizes_;
};

}  // namespace krill
