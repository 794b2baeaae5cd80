#include "loading/batch_header.hpp"

#include <cstring>
#include <optional>

namespace krill::loading {
namespace {

constexpr uint32_t kContinuation = 0xFFFFFFFF;
constexpr uint8_t kRecordBatch = 3;  // MessageHeader in Message.fbs

// A flatbuffer; its content is not trusted.
class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  template <class T>
  T read(size_t at) const {
    if (at > size_ || size_ - at < sizeof(T)) throw DamagedHeader("the message's header is cut short");
    T value;
    std::memcpy(&value, data_ + at, sizeof(T));
    return value;
  }

 private:
  const uint8_t* data_;
  size_t size_;
};

// A position, and a vtable that says where each field is.
class Table {
 public:
  Table(const Bytes& bytes, size_t at) : bytes_(bytes), at_(at) {
    const int64_t vtable = static_cast<int64_t>(at) - bytes.read<int32_t>(at);
    if (vtable < 0) throw DamagedHeader("the message's header is damaged");
    vtable_ = static_cast<size_t>(vtable);
  }

  // Where a field's value is; nothing if the table leaves it out.
  std::optional<size_t> field(size_t number) const {
    const size_t slot = 4 + 2 * number;
    if (slot >= bytes_.read<uint16_t>(vtable_)) return std::nullopt;
    const auto relative = bytes_.read<uint16_t>(vtable_ + slot);
    if (relative == 0) return std::nullopt;
    return at_ + relative;
  }

  template <class T>
  T scalar(size_t number) const {
    const auto place = field(number);
    return place ? bytes_.read<T>(*place) : T{0};
  }

  Table table(size_t number) const {
    const auto place = field(number);
    if (!place) throw DamagedHeader("the message's header is damaged");
    return {bytes_, *place + bytes_.read<uint32_t>(*place)};
  }

  // A vector of structs of two int64, which nodes and buffers both are.
  std::vector<BodyBuffer> pairs(size_t number) const {
    std::vector<BodyBuffer> found;
    const auto place = field(number);
    if (!place) return found;
    const size_t start = *place + bytes_.read<uint32_t>(*place);
    const auto count = bytes_.read<uint32_t>(start);
    for (size_t i = 0; i < count; ++i) {  // ends at the header's end at the latest
      const size_t pair = start + 4 + 16 * i;
      found.push_back({bytes_.read<int64_t>(pair), bytes_.read<int64_t>(pair + 8)});
    }
    return found;
  }

 private:
  Bytes bytes_;
  size_t at_;
  size_t vtable_;
};

}  // namespace

size_t header_bytes(const uint8_t* prefix) {
  const Bytes bytes(prefix, kMessagePrefix);
  if (bytes.read<uint32_t>(0) != kContinuation) throw DamagedHeader("no message begins there");
  return bytes.read<uint32_t>(4);
}

BatchHeader parse_batch_header(const uint8_t* header, size_t size) {
  const Bytes bytes(header, size);
  const Table message(bytes, bytes.read<uint32_t>(0));
  if (message.scalar<uint8_t>(1) != kRecordBatch) throw DamagedHeader("the message is not a record batch");
  const Table batch = message.table(2);
  bool nulls = false;
  for (const BodyBuffer& node : batch.pairs(1))
    nulls |= node.length != 0;  // of a node, the second is its nulls
  return {batch.scalar<int64_t>(0), nulls, batch.field(3).has_value(), batch.pairs(2)};
}

}  // namespace krill::loading
