// Best fit decreasing: pieces, longest first, each into the row with the least room that takes it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "buffer.hpp"

namespace krill::pack {

// The documents of row `r` are `documents[offsets[r]]` up to `documents[offsets[r + 1]]`, in the order in
// which they were fitted.
struct FittedRows {
  Buffer<uint32_t> offsets;
  Buffer<uint32_t> documents;
};

// Fits the rest of each document after full rows were cut from its front: `lengths[d] % width`
// tokens. Equally long pieces are taken in their order; of rows with equal room, the one that came to it
// first. Holds up to 16 bytes for each document and a little more than 4 for each token of a row.
FittedRows fit_remainders(const uint32_t* lengths, size_t documents, uint32_t width);

}  // namespace krill::pack
