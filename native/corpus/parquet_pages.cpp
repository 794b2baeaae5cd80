#include "corpus/parquet_pages.hpp"

#include <unistd.h>

#include <algorithm>
#include <vector>

namespace krill::corpus {
namespace {

// Numbers of fields in parquet.thrift.
enum class PageField : int64_t {
  kKind = 1,
  kDecoded = 2,
  kStored = 3,
  kData = 5,
  kDictionary = 7,
  kDataV2 = 8
};
constexpr int64_t kValues = 1;

// Headers may hold statistics, a value each; longer ones are not looked for.
constexpr size_t kFirstRead = 256;
constexpr size_t kMostRead = size_t{1} << 20;
// Some older writers leave the header of the dictionary out of what a column takes.
constexpr int64_t kSlack = 1024;

constexpr int64_t kDataPage = 0;
constexpr int64_t kDataPageV2 = 3;

// Nothing if it can't be read, or is none.
std::optional<PageHeader> read_page_header(int file, int64_t at) {
  std::vector<uint8_t> bytes;
  for (size_t room = kFirstRead; room <= kMostRead; room *= 8) {
    bytes.resize(room);
    const ssize_t got = ::pread(file, bytes.data(), room, static_cast<off_t>(at));
    if (got <= 0) return std::nullopt;
    try {
      const auto page = parse_page_header(bytes.data(), static_cast<size_t>(got));
      if (page || static_cast<size_t>(got) < room) return page;
    } catch (const DamagedThrift&) {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<PageHeader> parse_page_header(const uint8_t* data, size_t size) {
  ThriftReader reader(data, size);
  PageHeader page{-1, -1, -1, 0, 0};
  try {
    reader.fields([&](int64_t number, ThriftType type) {
      switch (static_cast<PageField>(number)) {
        case PageField::kKind: page.kind = reader.integer(type); return;
        case PageField::kDecoded: page.decoded = reader.integer(type); return;
        case PageField::kStored: page.stored = reader.integer(type); return;
        case PageField::kData:
        case PageField::kDictionary:
        case PageField::kDataV2:
          reader.expect(type, ThriftType::kStruct);
          reader.fields([&](int64_t inner, ThriftType inner_type) {
            if (inner == kValues) {
              page.values = reader.integer(inner_type);
            } else {
              reader.skip(inner_type);
            }
          });
          return;
      }
      reader.skip(type);
    });
  } catch (const CutShort&) {
    return std::nullopt;
  }
  page.bytes = reader.position();
  if (std::min({page.kind, page.stored, page.decoded, page.values}) < 0)
    throw DamagedThrift("a page without its sizes");
  return page;
}

int64_t find_damaged_page(int file, int64_t start, int64_t end, int64_t values) {
  while (start < end && values > 0) {
    const std::optional<PageHeader> page = read_page_header(file, start);
    if (!page) return start;
    const int64_t body = start + static_cast<int64_t>(page->bytes);
    if (page->stored > std::max<int64_t>(0, end - body) + kSlack) return start;
    if (page->kind == kDataPage || page->kind == kDataPageV2) values -= std::min(values, page->values);
    start = body + page->stored;
  }
  return -1;
}

}  // namespace krill::corpus
