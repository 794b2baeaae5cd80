// Thrift's compact protocol, in which Parquet's footers and page headers are written. The bytes are not
// trusted: nothing is read outside of them, and nesting is limited.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string_view>

namespace krill::corpus {

// The bytes are not valid Thrift.
struct DamagedThrift : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The bytes end too early.
struct CutShort : DamagedThrift {
  CutShort() : DamagedThrift("it is cut short") {}
};

enum class ThriftType : uint8_t {
  kTrue = 1,
  kFalse = 2,
  kByte = 3,
  kI16 = 4,
  kI32 = 5,
  kI64 = 6,
  kDouble = 7,
  kBinary = 8,
  kList = 9,
  kSet = 10,
  kMap = 11,
  kStruct = 12,
  kUuid = 13,
};

class ThriftReader {
 public:
  ThriftReader(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  // How many bytes were read.
  size_t position() const { return at_; }

  // Calls use(number, type) for each field of a struct; use reads or skips its value.
  template <class Use>
  void fields(Use&& use) {
    const Nesting nesting(depth_);
    int64_t number = 0;
    while (true) {
      const uint8_t head = byte();
      if (head == 0) return;
      number = head >> 4 != 0 ? number + (head >> 4) : zigzag();
      if (number < 0 || number > kMostField) fail();
      use(number, static_cast<ThriftType>(head & 0x0f));
    }
  }

  // Calls use(type) for each element of a list or set.
  template <class Use>
  void elements(Use&& use) {
    const Nesting nesting(depth_);
    const uint8_t head = byte();
    const uint64_t count = head >> 4 == 15 ? varint() : head >> 4;
    need(count);  // an element takes a byte at least
    for (uint64_t i = 0; i < count; ++i) use(static_cast<ThriftType>(head & 0x0f));
  }

  int64_t integer(ThriftType type) {
    if (type != ThriftType::kI16 && type != ThriftType::kI32 && type != ThriftType::kI64) fail();
    return zigzag();
  }

  std::string_view binary(ThriftType type) {
    if (type != ThriftType::kBinary) fail();
    return bytes(varint());
  }

  void expect(ThriftType type, ThriftType expected) {
    if (type != expected) fail();
  }

  void skip(ThriftType type, bool element = false) {
    switch (type) {
      case ThriftType::kTrue:
      case ThriftType::kFalse:
        if (element) (void)byte();  // in a field, the type is the value
        return;
      case ThriftType::kByte: (void)byte(); return;
      case ThriftType::kI16:
      case ThriftType::kI32:
      case ThriftType::kI64: (void)varint(); return;
      case ThriftType::kDouble: (void)bytes(8); return;
      case ThriftType::kUuid: (void)bytes(16); return;
      case ThriftType::kBinary: (void)bytes(varint()); return;
      case ThriftType::kList:
      case ThriftType::kSet: return elements([this](ThriftType inner) { skip(inner, true); });
      case ThriftType::kMap: return skip_map();
      case ThriftType::kStruct: return fields([this](int64_t, ThriftType inner) { skip(inner); });
    }
    fail();
  }

  [[noreturn]] static void fail() { throw DamagedThrift("it is not Thrift as Parquet writes it"); }

 private:
  static constexpr int kDeepest = 32;
  static constexpr int64_t kMostField = 32767;

  class Nesting {
   public:
    explicit Nesting(int& depth) : depth_(depth) {
      if (depth_ == kDeepest) fail();
      ++depth_;
    }
    ~Nesting() { --depth_; }

   private:
    int& depth_;
  };

  void skip_map() {
    const Nesting nesting(depth_);
    const uint64_t count = varint();
    if (count == 0) return;
    const uint8_t types = byte();
    need(count);
    for (uint64_t i = 0; i < count; ++i) {
      skip(static_cast<ThriftType>(types >> 4), true);
      skip(static_cast<ThriftType>(types & 0x0f), true);
    }
  }

  void need(uint64_t count) const {
    if (count > size_ - at_) throw CutShort();
  }

  uint8_t byte() {
    need(1);
    return data_[at_++];
  }

  std::string_view bytes(uint64_t count) {
    need(count);
    const char* begin = reinterpret_cast<const char*>(data_ + at_);
    at_ += static_cast<size_t>(count);
    return {begin, static_cast<size_t>(count)};
  }

  uint64_t varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const uint8_t next = byte();
      value |= static_cast<uint64_t>(next & 0x7f) << shift;
      if (next < 0x80) return value;
    }
    fail();
  }

  int64_t zigzag() {
    const uint64_t value = varint();
    return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
  }

  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace krill::corpus
