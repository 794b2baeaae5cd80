#include "dedup/fold.hpp"

namespace krill::dedup {
namespace {

constexpr uint32_t kPoints = 0x110000;

uint8_t ascii_of(uint8_t byte, FoldTable::Entry entry) {
  switch (entry.kind) {
    case FoldKind::kSpace: return FoldTable::kAsciiSpace;
    case FoldKind::kSeparator: return FoldTable::kAsciiSeparator;
    case FoldKind::kDigit: return FoldTable::kAsciiDigit;
    default: return static_cast<uint8_t>(byte + entry.change);
  }
}

}  // namespace

const FoldTable& FoldTable::get() {
  static const FoldTable table;
  return table;
}

// Page 0 holds no change and serves all code points until they have one.
FoldTable::FoldTable()
    : page_of_(kPoints / text::kCharPage, 0), pages_(text::kCharPage, Entry{FoldKind::kKeep, 0}) {
  for (size_t run = 0; run < kFoldRunCount; ++run) {
    const FoldRun& found = kFoldRuns[run];
    for (uint32_t point = found.first; point <= found.last; ++point)
      *writable(point) = {found.kind, found.change};
  }
  for (uint8_t byte = 0; byte < 128; ++byte) ascii_[byte] = ascii_of(byte, of(byte));
}

FoldTable::Entry* FoldTable::writable(uint32_t point) {
  uint16_t& page = page_of_[point / text::kCharPage];
  if (page == 0) {
    page = static_cast<uint16_t>(pages_.size() / text::kCharPage);
    pages_.resize(pages_.size() + text::kCharPage, Entry{FoldKind::kKeep, 0});
  }
  return &pages_[page * text::kCharPage + point % text::kCharPage];
}

}  // namespace krill::dedup
