#include "fasttext/matrix.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

namespace krill::fasttext {

namespace {

constexpr size_t kCodes = 256;
constexpr size_t kCacheLine = 64;
// Of a long row; the rest follows by itself.
constexpr size_t kLinesAhead = 16;

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
      : Matrix(shape.rows, shape.columns), weights_(std::move(weights)) {}

  void prefetch(size_t row) const override {
    const auto* const at = reinterpret_cast<const char*>(at_row(row));
    const size_t bytes = columns_ * sizeof(float);
    for (size_t line = 0; line < kLinesAhead && line * kCacheLine < bytes; ++line)
      __builtin_prefetch(at + line * kCacheLine);
  }

  void add_rows(std::span<const uint32_t> rows, float* vector) const override {
    size_t column = 0;
    for (; column + 16 <= columns_; column += 16) add_columns<16>(rows, column, vector);
    for (; column + 4 <= columns_; column += 4) add_columns<4>(rows, column, vector);
    for (; column < columns_; ++column) add_columns<1>(rows, column, vector);
  }

  float dot(size_t row, const float* vector) const override {
    const float* const weights = at_row(row);
    float sum = 0;
    for (size_t column = 0; column < columns_; ++column) sum += weights[column] * vector[column];
    return sum;
  }

 private:
  // Some columns of all rows: their sums stay in registers meanwhile.
  template <size_t Columns>
  void add_columns(std::span<const uint32_t> rows, size_t column, float* vector) const {
    float sums[Columns];
    std::copy_n(vector + column, Columns, sums);
    for (const uint32_t row : rows) {
      const float* const weights = at_row(row) + column;
      for (size_t at = 0; at < Columns; ++at) sums[at] += weights[at];
    }
    std::copy_n(sums, Columns, vector + column);
  }

  const float* at_row(size_t row) const {
    check_index(row, rows_);
    return weights_.data() + row * columns_;
  }

  Buffer<float> weights_;
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

  void prefetch(size_t row) const override {
    const uint8_t* const at = at_row(row);
    for (size_t offset = 0; offset < quantiser_.parts; offset += kCacheLine) __builtin_prefetch(at + offset);
    if (norm_codes_) __builtin_prefetch(norm_codes_->data() + row);
  }

  void add_rows(std::span<const uint32_t> rows, float* vector) const override {
    for (const uint32_t row : rows) {
      if (quantiser_.width == 2)
        add_row<2>(row, vector);
      else
        add_row<0>(row, vector);
    }
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
  // `Width` is that of parts, or 0 if it is not known before.
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
