#include "pack/runs.hpp"

namespace krill {

TokenRuns<std::uint16_t> encode_bytes(const TextColumn& documents, std::uint16_t eos) {
  TokenRuns<std::uint16_t> result{Buffer<std::uint16_t>(documents.total() + documents.rows),
                                  Buffer<std::uint32_t>(documents.rows)};
  std::uint16_t* out = result.ids.data();
  for (std::size_t row = 0; row < documents.rows; ++row) {
    const std::uint8_t* text = documents.begin(row);
    const std::size_t size = documents.size(row);
    for (std::size_t i = 0; i < size; ++i) out[i] = text[i];
    out[size] = eos;
    out += size + 1;
    result.lengths[row] = static_cast<std::uint32_t>(size + 1);
  }
  return result;
}

}  // namespace krill
