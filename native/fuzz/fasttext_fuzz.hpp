// Reads fastText models that the input has damaged: they are refused, or score any text within bounds.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "fasttext/model.hpp"
#include "fuzz/kernels_fuzz.hpp"

namespace krill::fuzz {

class MemorySource final : public fasttext::Source {
 public:
  explicit MemorySource(std::string_view data) : data_(data) {}
  void read(void* out, size_t size) override {
    expect(size <= data_.size(), "fasttext: read beyond the end");
    std::memcpy(out, data_.data(), size);
    data_.remove_prefix(size);
  }

 private:
  std::string_view data_;
};

template <class... T>
void put_numbers(std::string& out, T... numbers) {
  (out.append(reinterpret_cast<const char*>(&numbers), sizeof numbers), ...);
}

// Two words, three labels, vectors of three numbers, with everything that a file may have.
inline std::string fasttext_file(int32_t loss, bool quantised) {
  std::string file;
  constexpr int32_t kDim = 3, kBuckets = 5;
  put_numbers(file, int32_t{793712314}, int32_t{12}, kDim, 5, 1, 1, 5, 2, loss, 3, kBuckets, 1, 3, 100, 1e-4);
  put_numbers(file, int32_t{5}, int32_t{2}, int32_t{3}, int64_t{9}, int64_t{quantised ? 2 : -1});
  for (const char* word : {"</s>", "a", "__label__x", "__label__y", "__label__z"}) {
    file.append(word).push_back('\0');
    put_numbers(file, int64_t{4}, static_cast<uint8_t>(word[0] == '_' ? 1 : 0));
  }
  if (quantised) put_numbers(file, int32_t{1}, int32_t{0}, int32_t{4}, int32_t{1});
  const int64_t rows = 2 + (quantised ? 2 : kBuckets);
  file.push_back(quantised ? '\1' : '\0');
  if (quantised) {
    put_numbers(file, uint8_t{1}, rows, int64_t{kDim}, static_cast<int32_t>(rows * 2));
    file.append(static_cast<size_t>(rows * 2), '\7');
    put_numbers(file, kDim, int32_t{2}, int32_t{2}, int32_t{1});
    for (int number = 0; number < kDim * 256; ++number) put_numbers(file, 0.25f);
    file.append(static_cast<size_t>(rows), '\1');
    put_numbers(file, int32_t{1}, int32_t{1}, int32_t{1}, int32_t{1});
    for (int number = 0; number < 256; ++number) put_numbers(file, 1.5f);
  } else {
    put_numbers(file, rows, int64_t{kDim});
    for (int64_t number = 0; number < rows * kDim; ++number) put_numbers(file, 0.5f);
  }
  file.push_back('\0');
  put_numbers(file, int64_t{3}, int64_t{kDim});
  for (int number = 0; number < 3 * kDim; ++number) put_numbers(file, 0.125f);
  return file;
}

inline void fuzz_fasttext(const uint8_t* data, size_t size) {
  if (size == 0) return;
  std::string file = fasttext_file(1 + data[0] % 4, data[0] % 8 >= 4);
  const bool damaged = size % 4 != 0;
  // Most sizes stand in the first two hundred bytes.
  for (size_t at = 1; damaged && at + 2 < std::min<size_t>(size, 16); at += 3) {
    const size_t place =
        data[at] < 128 ? data[at] + size_t{data[at + 1]} % 128 : data[at] * size_t{131} + data[at + 1];
    file[place % file.size()] = static_cast<char>(data[at + 2]);
  }
  if (damaged && data[0] >= 192) file.resize(file.size() * data[size - 1] / 256);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    MemorySource source(file);
    fasttext::ModelReader reader(source, file.size());
    const fasttext::Model model(reader);
    fasttext::Model::Scratch scratch;
    std::vector<float> scores(model.dictionary().labels());
    for (const std::string_view part : {text, text.substr(size / 2), std::string_view()})
      model.score(part, scratch, scores.data());
  } catch (const std::invalid_argument&) {
    expect(damaged, "fasttext: a whole model is refused");
  }
}

}  // namespace krill::fuzz
