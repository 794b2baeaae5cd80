#include <nanobind/nanobind.h>

#include <string_view>

#include "bindings/arrays.hpp"
#include "web/page_size.hpp"
#include "web/page_text.hpp"

namespace krill::bindings {

namespace {

std::string_view page_of(const ByteView& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

nb::tuple measure(nb::handle page, int64_t max_tags, int64_t max_depth, int64_t max_work, bool empty_raw) {
  const ByteView bytes(page);
  const web::PageLimits limits{max_tags, max_depth, max_work};
  const web::PageSize size =
      without_gil([&] { return web::measure_page(page_of(bytes), limits, empty_raw); });
  return nb::make_tuple(size.tags, size.depth, size.work, size.attributes, size.attribute_bytes);
}

nb::bytes strip(nb::handle page) {
  const ByteView bytes(page);
  const std::string text = without_gil([&] { return web::page_text(page_of(bytes)); });
  return nb::bytes(text.data(), text.size());
}

}  // namespace

void bind_web(nb::module_& m) {
  m.def("measure_page", &measure, nb::arg("page"), nb::arg("max_tags"), nb::arg("max_depth"),
        nb::arg("max_work"), nb::arg("empty_raw") = false);
  m.def("page_text", &strip, nb::arg("page"));
}

}  // namespace krill::bindings
