#include "pack/token_batch.hpp"

namespace krill::pack {

TokenBatch<uint16_t> encode_bytes(const text::TextColumn& documents, uint16_t eos) {
  TokenBatch<uint16_t> result{Buffer<uint16_t>(documents.total() + documents.rows),
                              Buffer<uint32_t>(documents.rows)};
  uint16_t* out = result.ids.data();
  for (size_t row = 0; row < documents.rows; ++row) {
    const uint8_t* text = documents.begin(row);
    const size_t size = documents.size(row);
    for (size_t i = 0; i < size; ++i) out[i] = text[i];
    out[size] = eos;
    out += size + 1;
    result.lengths[row] = static_cast<uint32_t>(size + 1);
  }
  return result;
}

}  // namespace krill::pack
