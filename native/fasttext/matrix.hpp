// A matrix of weights, as numbers or as the codes of a product quantiser: rows are added and multiplied.
//
// Numbers are added in the order and in the 32 bits in which fastText adds them, so that sums are the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "buffer.hpp"
#include "fasttext/model_reader.hpp"

namespace krill::fasttext {

class Matrix {
 public:
  virtual ~Matrix() = default;
  size_t rows() const { return rows_; }
  size_t columns() const { return columns_; }

  // Adds rows to a vector, one after the other; many at once, as each is asked for before its turn.
  virtual void add_rows(std::span<const uint32_t> rows, float* vector) const = 0;
  virtual float dot(size_t row, const float* vector) const = 0;

 protected:
  Matrix(size_t rows, size_t columns) : rows_(rows), columns_(columns) {}

  size_t rows_;
  size_t columns_;
};

// Throws std::invalid_argument if the file does not say what a matrix is.
std::unique_ptr<const Matrix> read_dense_matrix(ModelReader& reader);
std::unique_ptr<const Matrix> read_quantised_matrix(ModelReader& reader);

}  // namespace krill::fasttext
