// Drives loading with orders, rows and record batches taken from the input, holds the order and the columns
// to slow and obvious versions, and aborts where they differ. Record batches may be anything: they are
// refused, or what is read from them lies inside the file.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "fuzz/kernels_fuzz.hpp"
#include "fuzz/readers_fuzz.hpp"
#include "loading/batch_header.hpp"
#include "loading/block_pool.hpp"
#include "loading/columns.hpp"
#include "loading/permutation.hpp"
#include "loading/row_order.hpp"
#include "loading/shard_rows.hpp"

namespace krill::fuzz {

inline void fuzz_row_order(Settings settings) {
  const loading::RowOrder order{
      settings.next(), settings.next(), settings.next(), {settings.next(), settings.next()}};
  std::vector<int64_t> rows(order.rows);
  try {
    order.write(0, rows.size(), rows.data());
  } catch (const std::invalid_argument&) {
    expect(order.block_rows == 0 || order.window == 0, "order: refused");
    return;
  }
  const size_t first = order.rows == 0 ? 0 : settings.next() % order.rows;
  std::vector<int64_t> some(order.rows - first);
  order.write(first, some.size(), some.data());
  expect(std::equal(some.begin(), some.end(), rows.begin() + static_cast<ptrdiff_t>(first)),
         "order: a stretch");
  std::sort(rows.begin(), rows.end());
  for (size_t row = 0; row < rows.size(); ++row)
    expect(rows[row] == static_cast<int64_t>(row), "order: every row once");
}

inline void fuzz_permutation(Settings settings) {
  const uint64_t count = 1 + settings.next() * (1u + settings.next());
  const uint64_t key[] = {settings.next(), settings.next()};
  const loading::Permutation permutation(count, key, 2);
  const uint64_t number = settings.next() % count;
  expect(permutation(number) < count && permutation.inverse(permutation(number)) == number, "permutation");
}

// Rows whose offsets and lengths are the input's: written as they say, or refused.
inline void fuzz_columns(Settings settings) {
  const size_t count = settings.next() % 8;
  const size_t width = 1 + settings.next() % 16;
  const auto kind = static_cast<loading::Labels>(settings.next() % 3);
  const bool tidy = settings.next() % 2 == 0;
  std::vector<int64_t> offsets{0};
  std::vector<int32_t> lengths;
  std::vector<int32_t> starts{0};
  for (size_t row = 0; row < count; ++row) {
    int64_t total = 0;
    for (size_t documents = settings.next() % 4; documents > 0; --documents) {
      lengths.push_back(tidy ? 1 + settings.next() % 8 : static_cast<int8_t>(settings.next()));
      total += lengths.back();
    }
    offsets.push_back(offsets.back() + (tidy ? total : static_cast<int8_t>(settings.next())));
    starts.push_back(tidy ? static_cast<int32_t>(lengths.size()) : static_cast<int8_t>(settings.next()));
  }
  const bool given = settings.next() % 2 == 0;
  const std::vector<uint8_t> tokens(settings.rest(), settings.rest() + settings.rest_size());
  std::vector<int32_t> own_labels;
  for (const uint8_t token : tokens) own_labels.push_back(given && token % 3 == 0 ? -100 : token);
  std::vector<int32_t> ids(count * width), segments(count * width), positions(count * width),
      mask(count * width);
  std::vector<int64_t> labels(count * width);
  const loading::Columns columns{ids.data(),
                                 kind == loading::Labels::kNone ? nullptr : labels.data(),
                                 segments.data(),
                                 positions.data(),
                                 mask.data(),
                                 width,
                                 7,
                                 kind,
                                 false,
                                 true};
  try {
    loading::write_columns(
        {tokens.data(), loading::TokenType::kU8, tokens.size(), given ? own_labels.data() : nullptr,
         offsets.data(), lengths.data(), lengths.size(), starts.data(), count},
        columns);
  } catch (const loading::BadRow& fault) {
    expect(fault.row < count, "columns: the wrong row");
    return;
  }
  for (size_t row = 0; row < count; ++row) {
    size_t at = row * width;
    for (int32_t document = starts[row]; document < starts[row + 1]; ++document)
      for (int32_t i = 0; i < lengths[static_cast<size_t>(document)]; ++i, ++at) {
        const size_t token = static_cast<size_t>(offsets[row]) + at - row * width;
        const bool last = i + 1 == lengths[static_cast<size_t>(document)];
        expect(ids[at] == tokens[token] && mask[at] == 1, "columns: ids");
        expect(segments[at] == document - starts[row] + 1 && positions[at] == i, "columns: segments");
        if (kind == loading::Labels::kShifted)
          expect(labels[at] == (last ? loading::kIgnored : own_labels[token + 1]), "columns: shifted");
        if (kind == loading::Labels::kUnshifted)
          expect(labels[at] == (i == 0 ? loading::kIgnored : own_labels[token]), "columns: labels");
      }
    for (; at < (row + 1) * width; ++at)
      expect(ids[at] == 7 && mask[at] == 0 && segments[at] == 0, "columns: padding");
  }
}

// A file in memory, whose bytes are the input's.
class MemoryFile {
 public:
  explicit MemoryFile(const std::vector<uint8_t>& content) : descriptor_(::memfd_create("shard", 0)) {
    expect(descriptor_ >= 0 &&
               ::write(descriptor_, content.data(), content.size()) == static_cast<ssize_t>(content.size()),
           "shard: no file in memory");
  }
  ~MemoryFile() { ::close(descriptor_); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

inline void fuzz_shard_rows(Settings settings) {
  const int64_t rows = settings.next() % 6;
  const int64_t per_batch = settings.next() % 4;
  const int64_t first = settings.next() % 32;
  const loading::RowShape shape{1 + settings.next() % 4, int64_t{1} << settings.next() % 4,
                                settings.next() % 2 == 0, settings.next() % 3};
  // What is read is a message now and then: a mark and a length that make sense.
  std::vector<uint8_t> content(settings.rest(), settings.rest() + settings.rest_size());
  if (content.size() >= static_cast<size_t>(first) + 8)
    std::fill_n(content.begin() + first, 4, uint8_t{0xff});
  const MemoryFile file(content);
  const int64_t batches = per_batch == 0 ? 0 : (rows + per_batch - 1) / per_batch;
  std::vector<int64_t> offsets;
  for (int64_t batch = 0; batch < batches; ++batch) offsets.push_back(first + 40 * batch);
  try {
    loading::ShardRows shards(
        {{file.path()}, {static_cast<int64_t>(content.size())}, {0, rows}, offsets, per_batch, shape}, 1000,
        settings.next() % 2 == 0, std::make_shared<loading::BlockPool>(1000));
    const int64_t asked[] = {0, rows - 1, 1};
    const loading::GatheredRows found = shards.gather(asked, rows > 1 ? 3 : 1);
    expect(found.offsets[0] == 0, "shard: offsets");
  } catch (const std::invalid_argument&) {
  } catch (const pack::UnreadableFile& fault) {
    expect(fault.file == 0, "shard: the wrong file");
  }
}

inline void fuzz_batch_header(Settings settings) {
  const std::vector<uint8_t> header(settings.rest(), settings.rest() + settings.rest_size());
  try {
    (void)loading::parse_batch_header(header.data(), header.size());
  } catch (const loading::DamagedHeader&) {
  }
}

inline void fuzz_loading(const uint8_t* data, size_t size) {
  fuzz_row_order({data, size});
  fuzz_permutation({data, size});
  fuzz_columns({data, size});
  fuzz_shard_rows({data, size});
  fuzz_batch_header({data, size});
}

}  // namespace krill::fuzz
