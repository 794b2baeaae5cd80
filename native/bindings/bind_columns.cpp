#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"
#include "buffer.hpp"
#include "corpus/arrow_columns.hpp"

namespace krill::bindings {

namespace {

template <class T>
const T& exported(nb::handle capsule, const char* name) {
  const auto* structure = static_cast<const T*>(PyCapsule_GetPointer(capsule.ptr(), name));
  if (structure == nullptr) nb::raise_python_error();
  return *structure;
}

nb::tuple row_bytes(nb::handle schema_capsule, nb::handle array_capsule) {
  const auto& schema = exported<ArrowSchema>(schema_capsule, "arrow_schema");
  const auto& batch = exported<ArrowArray>(array_capsule, "arrow_array");
  auto total = Buffer<int64_t>::zeros(static_cast<size_t>(batch.length));
  std::vector<size_t> others;
  {
    nb::gil_scoped_release release;
    others = corpus::add_row_bytes(schema, batch, total.data());
  }
  return nb::make_tuple(to_numpy(std::move(total)), others);
}

}  // namespace

void bind_columns(nb::module_& m) { m.def("row_bytes", &row_bytes, nb::arg("schema"), nb::arg("batch")); }

}  // namespace krill::bindings
