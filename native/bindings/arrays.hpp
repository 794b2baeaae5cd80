// Arguments from Python and results for it: borrowed bytes, borrowed arrays, arrays that own their memory.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>

#include "buffer.hpp"
#include "growing_buffer.hpp"
#include "text/column.hpp"

namespace krill::bindings {

namespace nb = nanobind;

// Any contiguous object with the buffer protocol (bytes, memoryview, pyarrow.Buffer, NumPy array), as bytes.
// Held for as long as the view lives; made and destroyed with the GIL.
class ByteView {
 public:
  explicit ByteView(nb::handle source) {
    if (PyObject_GetBuffer(source.ptr(), &view_, PyBUF_SIMPLE) != 0) nb::raise_python_error();
  }
  ByteView(const ByteView&) = delete;
  ByteView& operator=(const ByteView&) = delete;
  ~ByteView() { PyBuffer_Release(&view_); }

  const uint8_t* data() const { return static_cast<const uint8_t*>(view_.buf); }
  size_t size() const { return static_cast<size_t>(view_.len); }

 private:
  Py_buffer view_;
};

inline std::span<const uint8_t> span_of(const ByteView& bytes) { return {bytes.data(), bytes.size()}; }

template <class T>
using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
std::span<const T> span_of(const In<T>& array) {
  return {array.data(), array.size()};
}

template <class T>
using Out = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

// Calls `work` with the GIL released.
template <class Work>
auto without_gil(Work&& work) {
  nb::gil_scoped_release release;
  return work();
}

// Keeps a buffer alive for as long as an array shows it.
template <class T>
nb::capsule owner_of(Buffer<T> buffer) {
  auto owned = std::make_unique<Buffer<T>>(std::move(buffer));
  nb::capsule owner(owned.get(), [](void* memory) noexcept { delete static_cast<Buffer<T>*>(memory); });
  (void)owned.release();
  return owner;
}

template <class T>
nb::capsule owner_of(GrowingBuffer<T> buffer) {
  nb::capsule owner(buffer.data(), [](void* memory) noexcept { std::free(memory); });
  (void)buffer.release();
  return owner;
}

template <class T>
Out<T> to_numpy(Buffer<T> buffer) {
  T* data = buffer.data();
  const size_t size = buffer.size();
  return Out<T>(data, {size}, owner_of(std::move(buffer)));
}

template <class T>
Out<T> to_numpy(GrowingBuffer<T> buffer) {
  buffer.shrink_to_fit();
  T* data = buffer.data();
  const size_t size = buffer.size();
  return Out<T>(data, {size}, owner_of(std::move(buffer)));
}

inline text::TextColumn text_column(const In<int64_t>& offsets, const ByteView& data) {
  if (offsets.size() == 0) throw std::invalid_argument("offsets must hold one number more than documents");
  const text::TextColumn column{offsets.data(), offsets.size() - 1, data.data(), data.size()};
  column.check();
  return column;
}

}  // namespace krill::bindings
