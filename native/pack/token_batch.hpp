// Tokens of several documents: all ids end to end, and the length of each document.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "buffer.hpp"
#include "text/column.hpp"

namespace krill::pack {

template <class Id>
struct TokenBatch {
  Buffer<Id> ids;
  Buffer<uint32_t> lengths;
};

// The byte tokenizer: each byte is its own id, and `eos` ends each document. The column must have been
// checked.
TokenBatch<uint16_t> encode_bytes(const text::TextColumn& documents, uint16_t eos);

// The documents whose `keep` is not 0. Throws std::invalid_argument if the lengths don't add
// up to the ids.
template <class Id>
TokenBatch<Id> select_documents(const Id* ids, size_t id_count, const uint32_t* lengths, const uint8_t* keep,
                                size_t documents) {
  size_t total = 0;
  size_t kept_ids = 0;
  size_t kept = 0;
  for (size_t i = 0; i < documents; ++i) {
    total += lengths[i];
    kept_ids += keep[i] != 0 ? lengths[i] : 0;
    kept += keep[i] != 0;
  }
  if (total != id_count) throw std::invalid_argument("lengths don't add up to the number of ids");

  TokenBatch<Id> result{Buffer<Id>(kept_ids), Buffer<uint32_t>(kept)};
  size_t read = 0;
  size_t written = 0;
  size_t row = 0;
  for (size_t i = 0; i < documents;) {
    if (keep[i] == 0) {
      read += lengths[i++];
      continue;
    }
    const size_t begin = read;  // neighbours that are kept are copied at once
    for (; i < documents && keep[i] != 0; ++i) {
      result.lengths[row++] = lengths[i];
      read += lengths[i];
    }
    if (read != begin) std::memcpy(result.ids.data() + written, ids + begin, (read - begin) * sizeof(Id));
    written += read - begin;
  }
  return result;
}

// The same documents, each with the id `first` before its own.
template <class Id>
TokenBatch<Id> prepend_token(const Id* ids, size_t id_count, const uint32_t* lengths, size_t documents,
                             Id first) {
  size_t total = 0;
  for (size_t i = 0; i < documents; ++i) {
    if (lengths[i] == std::numeric_limits<uint32_t>::max())
      throw std::invalid_argument("a document is too long for another id");
    total += lengths[i];
  }
  if (total != id_count) throw std::invalid_argument("lengths don't add up to the number of ids");

  TokenBatch<Id> result{Buffer<Id>(id_count + documents), Buffer<uint32_t>(documents)};
  Id* out = result.ids.data();
  for (size_t i = 0; i < documents; ++i) {
    *out++ = first;
    if (lengths[i] != 0) std::memcpy(out, ids, lengths[i] * sizeof(Id));
    ids += lengths[i];
    out += lengths[i];
    result.lengths[i] = lengths[i] + 1;
  }
  return result;
}

}  // namespace krill::pack
