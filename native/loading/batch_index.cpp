#include "loading/batch_index.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "loading/batch_header.hpp"

namespace krill::loading {
namespace {

constexpr size_t kFirstRead = 512;  // the header of the dataset's schema takes 280 bytes: one read, not two
constexpr size_t kLongestHeader = size_t{1} << 16;
// Buffers of the two columns. Each list has a validity buffer (empty here), one of offsets if its width
// varies, and those of its values: again validity, then the values themselves.
constexpr size_t kFixedBuffers = 7;
constexpr size_t kVariableBuffers = 8;
constexpr size_t kMoreBuffers = 4;  // of each further column

// A message's body: where it begins in the file, how long it is, and its header.
struct Body {
  int64_t start;
  int64_t size;
  BatchHeader header;
};

Body read_header(const ShardFile& file, int64_t start, int64_t end) {
  constexpr auto kPrefix = static_cast<int64_t>(kMessagePrefix);
  if (start < 0 || end < start + kPrefix) throw DamagedHeader("the message is cut short");
  std::vector<uint8_t> head(std::min<size_t>(kFirstRead, static_cast<size_t>(end - start)));
  file.read(start, head.data(), head.size());
  const size_t size = header_bytes(head.data());
  if (size > kLongestHeader || static_cast<int64_t>(size) > end - start - kPrefix)
    throw DamagedHeader("the message's header is longer than the message");
  if (const size_t had = head.size(); kMessagePrefix + size > had) {
    head.resize(kMessagePrefix + size);
    file.read(start + static_cast<int64_t>(had), head.data() + had, head.size() - had);
  }
  const int64_t body = start + kPrefix + static_cast<int64_t>(size);
  return {body, end - body, parse_batch_header(head.data() + kMessagePrefix, size)};
}

// They lie in the body, one after the other.
void check_buffers(const std::vector<BodyBuffer>& buffers, int64_t body_size) {
  int64_t before = 0;
  for (const BodyBuffer& buffer : buffers) {
    if (buffer.length == 0) continue;  // nothing is read from it, wherever it is
    if (buffer.offset < before || buffer.length < 0) throw DamagedHeader("its buffers overlap");
    if (buffer.length > body_size || buffer.offset > body_size - buffer.length)
      throw DamagedHeader("its buffers lie outside the message");
    before = buffer.offset + buffer.length;
  }
}

std::vector<int32_t> read_numbers(const ShardFile& file, const Body& body, const BodyBuffer& buffer) {
  std::vector<int32_t> numbers(static_cast<size_t>(buffer.length) / sizeof(int32_t));
  file.read(body.start + buffer.offset, numbers.data(), numbers.size() * sizeof(int32_t));
  return numbers;
}

std::vector<int32_t> read_offsets(const ShardFile& file, const Body& body, const BodyBuffer& buffer,
                                  int64_t rows, int64_t most, const char* column) {
  if (buffer.length != 4 * (rows + 1)) throw DamagedHeader("its buffers have the wrong size");
  std::vector<int32_t> offsets = read_numbers(file, body, buffer);
  if (offsets.front() < 0 || offsets.back() > most || !std::is_sorted(offsets.begin(), offsets.end()))
    throw DamagedHeader(std::string("the offsets of `") + column + "` are not ascending");
  return offsets;
}

void check_widths(const std::vector<int32_t>& offsets, int64_t width) {
  for (size_t row = 0; row + 1 < offsets.size(); ++row)
    if (offsets[row + 1] - offsets[row] > width)
      throw DamagedHeader("a row is longer than " + std::to_string(width) + " tokens");
}

}  // namespace

BatchIndex read_batch_index(const ShardFile& file, int64_t start, int64_t end, int64_t rows,
                            const RowShape& shape) {
  const Body body = read_header(file, start, end);
  const std::vector<BodyBuffer>& buffers = body.header.buffers;
  const size_t own = shape.fixed ? kFixedBuffers : kVariableBuffers;
  if (body.header.rows != rows || body.header.nulls || body.header.compressed ||
      buffers.size() != own + kMoreBuffers * static_cast<size_t>(shape.more))
    throw DamagedHeader("it is not an uncompressed batch of " + std::to_string(rows) +
                        " rows of `input_ids` and `seq_lengths`" + (shape.more > 0 ? " with `labels`" : ""));
  check_buffers(buffers, body.size);
  const size_t variable = shape.fixed ? 0 : 1;
  const BodyBuffer& tokens = buffers[2 + variable];
  const BodyBuffer& lengths = buffers[6 + variable];
  if (lengths.length % 4 != 0 || tokens.length % shape.itemsize != 0 ||
      (shape.fixed && tokens.length != rows * shape.width * shape.itemsize))
    throw DamagedHeader("its buffers have the wrong size");

  BatchIndex index;
  index.tokens_at = body.start + tokens.offset;
  if (shape.more > 0) {
    const BodyBuffer& labels = buffers[own + kMoreBuffers - 1];
    if (labels.length / 4 != tokens.length / shape.itemsize)
      throw DamagedHeader("its buffers have the wrong size");
    index.labels_at = body.start + labels.offset;
  }
  if (!shape.fixed) {
    index.token_offsets =
        read_offsets(file, body, buffers[1], rows, tokens.length / shape.itemsize, "input_ids");
    check_widths(index.token_offsets, shape.width);
  }
  index.offsets = read_offsets(file, body, buffers[4 + variable], rows, lengths.length / 4, "seq_lengths");
  index.seq_lengths = read_numbers(file, body, lengths);
  return index;
}

}  // namespace krill::loading
