#include "fasttext/matrix.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "processor.hpp"

namespace krill::fasttext {

namespace {

// Numbers that are added side by side; each is its own sum, whatever vectors a processor has.
typedef float Lanes __attribute__((vector_size(32)));

constexpr size_t kCodes = 256;
constexpr size_t kCacheLine = 64;
// So many rows are added at once: they stay in the first cache while one group of columns follows another.
constexpr size_t kBlock = 16;
// What is asked for before it is added, in lines of the cache, as memory takes some time to answer.
constexpr size_t kLinesAhead = 64;

struct Shape {
  size_t rows;
  size_t columns;
};

Shape read_shape(ModelReader& reader) {
  const auto rows = reader.number<int64_t>();
  const auto columns = reader.number<int64_t>();
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  expect(rows >= 0 && columns > 0 && rows <= kMost && columns <= kMost,
         "a matrix in it has an impossible size");
  return {static_cast<size_t>(rows), static_cast<size_t>(columns)};
}

class DenseMatrix final : public Matrix {
 public:
  DenseMatrix(Shape shape, Buffer<float> weights)
      : Matrix(shape.rows, shape.columns), weights_(std::move(weights)), add_block_(add_block) {
#if defined(__x86_64__)
    if (Processor::of_this_machine().avx2) add_block_ = add_block_avx2;
#endif
  }

  void add_rows(std::span<const uint32_t> rows, float* vector) const override {
    const size_t lines = std::max<size_t>(columns_ * sizeof(float) / kCacheLine, 1);
    const size_t ahead = std::max(kLinesAhead / lines, kBlock);
    prefetch(rows.first(std::min(ahead, rows.size())));
    while (!rows.empty()) {
      const size_t size = std::min(kBlock, rows.size());
      const size_t behind = std::min(ahead, rows.size());
      const auto next = rows.subspan(behind, std::min(size, rows.size() - behind));
      add_block_(*this, rows.first(size), next, vector);
      rows = rows.subspan(size);
    }
  }

  float dot(size_t row, const float* vector) const override {
    const float* const weights = at_row(row);
    float sum = 0;
    for (size_t column = 0; column < columns_; ++column) sum += weights[column] * vector[column];
    return sum;
  }

 private:
  using Rows = std::span<const uint32_t>;

  void prefetch(Rows rows) const {
    for (const uint32_t row : rows) {
      const float* const weights = at_row(row);
      for (size_t column = 0; column < columns_; column += kCacheLine / sizeof(float))
        __builtin_prefetch(weights + column);
    }
  }

  // Adds some rows, and asks for others that will be added soon.
  [[gnu::always_inline]] inline void add_and_prefetch(Rows rows, Rows next, float* vector) const {
    size_t column = 0;
    for (; column + 32 <= columns_; column += 32) add_columns<Lanes, 4>(rows, next, column, vector);
    for (; column + 8 <= columns_; column += 8) add_columns<Lanes, 1>(rows, next, column, vector);
    for (; column < columns_; ++column) add_columns<float, 1>(rows, {}, column, vector);
  }

  // Some columns of all rows: their sums stay in registers meanwhile.
  template <class Part, size_t Parts>
  [[gnu::always_inline]] inline void add_columns(Rows rows, Rows next, size_t column, float* vector) const {
    constexpr size_t kPrefetched = std::max<size_t>(Parts * sizeof(Part) / kCacheLine, 1);
    for (const uint32_t row : next)
      for (size_t line = 0; line < kPrefetched; ++line)
        __builtin_prefetch(at_row(row) + column + line * kCacheLine / sizeof(float));
    Part sums[Parts];
    std::memcpy(sums, vector + column, sizeof sums);
    for (const uint32_t row : rows) {
      const float* const weights = at_row(row) + column;
      for (size_t part = 0; part < Parts; ++part) {
        Part added;
        std::memcpy(&added, weights + part * sizeof(Part) / sizeof(float), sizeof added);
        sums[part] += added;
      }
    }
    std::memcpy(vector + column, sums, sizeof sums);
  }

  // One loop, compiled for what every processor of the kind has and for what newer ones have.
  static void add_block(const DenseMatrix& matrix, Rows rows, Rows next, float* vector) {
    matrix.add_and_prefetch(rows, next, vector);
  }
#if defined(__x86_64__)
  [[gnu::target("avx2")]] static void add_block_avx2(const DenseMatrix& matrix, Rows rows, Rows next,
                                                     float* vector) {
    matrix.add_and_prefetch(rows, next, vector);
  }
#endif

  const float* at_row(size_t row) const {
    check_index(row, rows_);
    return weights_.data() + row * columns_;
  }

  Buffer<float> weights_;
  void (*add_block_)(const DenseMatrix&, Rows, Rows, float*);
};

// Vectors in parts of `width` numbers, each one of 256 known for its place.
struct Quantiser {
  size_t parts;
  size_t width;
  size_t last_width;
  Buffer<float> centroids;

  static Quantiser read(ModelReader& reader, size_t columns) {
    const auto dim = reader.number<int32_t>();
    const auto parts = reader.number<int32_t>();
    const auto width = reader.number<int32_t>();
    const auto last_width = reader.number<int32_t>();
    expect(dim > 0 && static_cast<size_t>(dim) == columns && width > 0,
           "a quantiser in it does not fit its matrix");
    expect(parts == (int64_t{dim} + width - 1) / width && last_width == dim - (parts - 1) * width,
           "a quantiser in it has parts that do not make a whole");
    return {static_cast<size_t>(parts), static_cast<size_t>(width), static_cast<size_t>(last_width),
            reader.floats(columns * kCodes)};
  }

  const float* centroid(size_t part, uint8_t code) const {
    const size_t own = part + 1 == parts ? last_width : width;
    return centroids.data() + part * kCodes * width + code * own;
  }
};

class QuantisedMatrix final : public Matrix {
 public:
  QuantisedMatrix(Shape shape, Buffer<uint8_t> codes, Quantiser quantiser)
      : Matrix(shape.rows, shape.columns), codes_(std::move(codes)), quantiser_(std::move(quantiser)) {}

  void set_norms(Buffer<uint8_t> codes, Quantiser quantiser) {
    norm_codes_.emplace(std::move(codes));
    norms_.emplace(std::move(quantiser));
  }

  void add_rows(std::span<const uint32_t> rows, float* vector) const override {
    if (quantiser_.width == 2)
      add_rows_of<2>(rows, vector);
    else
      add_rows_of<0>(rows, vector);
  }

  float dot(size_t row, const float* vector) const override {
    const uint8_t* const codes = at_row(row);
    float sum = 0;
    for (size_t part = 0; part < quantiser_.parts; ++part) {
      const float* const centroid = quantiser_.centroid(part, codes[part]);
      const float* const own = vector + part * quantiser_.width;
      const size_t width = part + 1 == quantiser_.parts ? quantiser_.last_width : quantiser_.width;
      for (size_t at = 0; at < width; ++at) sum += own[at] * centroid[at];
    }
    return sum * norm(row);
  }

 private:
  void prefetch(size_t row) const {
    const uint8_t* const at = at_row(row);
    for (size_t offset = 0; offset < quantiser_.parts; offset += kCacheLine) __builtin_prefetch(at + offset);
    if (norm_codes_) __builtin_prefetch(norm_codes_->data() + row);
  }

  // `Width` is that of parts, or 0 if it is not known before.
  template <size_t Width>
  void add_rows_of(std::span<const uint32_t> rows, float* vector) const {
    for (const uint32_t row : rows.first(std::min(kBlock, rows.size()))) prefetch(row);
    for (size_t at = 0; at < rows.size(); ++at) {
      if (at + kBlock < rows.size()) prefetch(rows[at + kBlock]);
      add_row<Width>(rows[at], vector);
    }
  }

  template <size_t Width>
  void add_row(size_t row, float* vector) const {
    const uint8_t* const codes = at_row(row);
    const float scale = norm(row);
    const size_t width = Width == 0 ? quantiser_.width : Width;
    const size_t whole = quantiser_.parts - 1;
    const float* table = quantiser_.centroids.data();
    for (size_t part = 0; part < whole; ++part, table += kCodes * width, vector += width) {
      const float* const centroid = table + codes[part] * width;
      for (size_t at = 0; at < width; ++at) vector[at] += scale * centroid[at];
    }
    const float* const last = table + codes[whole] * quantiser_.last_width;
    for (size_t at = 0; at < quantiser_.last_width; ++at) vector[at] += scale * last[at];
  }

  const uint8_t* at_row(size_t row) const {
    check_index(row, rows_);
    return codes_.data() + row * quantiser_.parts;
  }
  float norm(size_t row) const { return norm_codes_ ? norms_->centroids[(*norm_codes_)[row]] : 1.0f; }

  Buffer<uint8_t> codes_;
  Quantiser quantiser_;
  std::optional<Buffer<uint8_t>> norm_codes_;
  std::optional<Quantiser> norms_;
};

}  // namespace

std::unique_ptr<const Matrix> read_dense_matrix(ModelReader& reader) {
  const Shape shape = read_shape(reader);
  reader.expect_left(shape.rows, shape.columns * sizeof(float));
  return std::make_unique<DenseMatrix>(shape, reader.floats(shape.rows * shape.columns));
}

std::unique_ptr<const Matrix> read_quantised_matrix(ModelReader& reader) {
  const bool has_norms = reader.flag();
  const Shape shape = read_shape(reader);
  const auto size = reader.number<int32_t>();
  expect(size >= 0, "a matrix in it has an impossible size");
  Buffer<uint8_t> codes = reader.bytes(static_cast<size_t>(size));
  Quantiser quantiser = Quantiser::read(reader, shape.columns);
  expect(codes.size() / quantiser.parts == shape.rows && codes.size() % quantiser.parts == 0,
         "a quantiser in it does not fit its matrix");
  auto matrix = std::make_unique<QuantisedMatrix>(shape, std::move(codes), std::move(quantiser));
  if (has_norms) {
    Buffer<uint8_t> norm_codes = reader.bytes(shape.rows);
    matrix->set_norms(std::move(norm_codes), Quantiser::read(reader, 1));
  }
  return matrix;
}

}  // namespace krill::fasttext
