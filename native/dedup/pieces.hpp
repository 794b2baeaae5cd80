// Documents in pieces: lines, or paragraphs. A line includes its \n. A paragraph is a run of lines that are
// not blank, with the blank lines after it. Whitespace alone is not a piece: it is never counted and never
// dropped. A piece is identified by its text without the whitespace at either end.
#pragma once

#include <cstddef>
#include <cstdint>

#include "buffer.hpp"
#include "dedup/hash.hpp"
#include "text/column.hpp"

namespace krill::dedup {

enum class Level { line, paragraph };

struct PieceHashes {
  Buffer<Hash> hashes;
  Buffer<uint32_t> counts;  // pieces of each document
};
PieceHashes piece_hashes(const text::TextColumn& documents, Level level);

struct KeptPieces {
  Buffer<int64_t> offsets;
  Buffer<uint8_t> data;
};
// The documents without the pieces whose flag is 0. Throws std::invalid_argument if there are not
// `flag_count` pieces.
KeptPieces keep_pieces(const text::TextColumn& documents, Level level, const uint8_t* flags,
                       size_t flag_count);

}  // namespace krill::dedup
