// The buffers of one Arrow record batch, read from its message header; krill.dataset.message is the
// same in Python and says more. Every position is checked before it is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace krill::loading {

struct DamagedHeader : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A buffer's position, from the beginning of the message's body.
struct BodyBuffer {
  int64_t offset;
  int64_t length;
};

struct BatchHeader {
  int64_t rows;
  bool nulls;
  bool compressed;
  std::vector<BodyBuffer> buffers;
};

inline constexpr size_t kMessagePrefix = 8;  // the continuation marker and the header's length

// The length of the header that follows the prefix of a message.
size_t header_bytes(const uint8_t* prefix);

BatchHeader parse_batch_header(const uint8_t* header, size_t size);

}  // namespace krill::loading
