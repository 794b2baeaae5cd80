// Connected components of a graph over document numbers, each labelled by its smallest document.
//
// Edges are given twice: first to mark which documents have any, then to join. Held in memory: a bit and an
// eighth for each document; from the first join on four bytes for each document that has an edge, and four
// more once components are counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "buffer.hpp"
#include "dedup/hash.hpp"

namespace krill::dedup {

class Components {
 public:
  explicit Components(uint64_t documents);

  // An edge is two document numbers, stored as a Hash. Throws std::out_of_range for unknown documents.
  void mark(const Hash* edges, size_t count);
  // Documents with an edge. Throws std::length_error above 2^32 - 1.
  uint64_t members();
  // Throws std::invalid_argument for an edge that was not marked.
  void join(const Hash* edges, size_t count);

  struct Summary {
    uint64_t clusters;  // with a document that is not kept
    uint64_t largest;   // documents of the largest
  };
  // Counts components; documents below `prior` are not counted, but documents connected to one are not
  // kept.
  Summary count(uint64_t prior);

  // The smallest document of the component, and how many it has, for documents first..first+count-1; after
  // `count`.
  void labels(uint64_t first, size_t count, uint64_t* smallest, uint32_t* sizes) const;

 private:
  uint32_t rank(uint64_t document) const;
  uint64_t document(uint32_t member) const;
  bool marked(uint64_t document) const { return bits_[document / 64] >> (document % 64) & 1; }
  void check(const Hash& edge) const;
  uint32_t root(uint32_t member);
  Buffer<uint32_t>& parents();

  uint64_t documents_;
  Buffer<uint64_t> bits_;
  Buffer<uint32_t> ranks_;  // members before each 256 documents
  std::optional<Buffer<uint32_t>> parents_;
  std::optional<Buffer<uint32_t>> sizes_;
};

}  // namespace krill::dedup
