#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "bindings/arrays.hpp"
#include "growing_buffer.hpp"
#include "regex/errors.hpp"
#include "regex/regex.hpp"

namespace krill::bindings {

namespace {

using regex::Regex;

void check_size(const ByteView& text) {
  if (text.size() >= Regex::kGap) throw std::invalid_argument("a text must be smaller than 2 GiB");
}

// All stretches, written `capacity` at a time.
Out<uint32_t> split_all(const Regex& pattern, nb::handle data, size_t capacity) {
  const ByteView text(data);
  check_size(text);
  capacity = std::max(capacity, Regex::kLeastCapacity);
  GrowingBuffer<uint32_t> ends;
  without_gil([&] {
    Buffer<uint32_t> some(capacity);
    for (size_t from = 0;;) {
      const size_t count = pattern.split(text.data(), text.size(), from, some.data(), capacity);
      if (count == 0) return;
      ends.append(some.data(), count);
      from = some.data()[count - 1] & ~Regex::kGap;
    }
  });
  return to_numpy(std::move(ends));
}

std::optional<std::pair<size_t, size_t>> find_one(const Regex& pattern, nb::handle data, size_t from) {
  const ByteView text(data);
  check_size(text);
  regex::Match match{};
  const bool found = without_gil([&] { return pattern.find(text.data(), text.size(), from, match); });
  if (!found) return std::nullopt;
  return std::pair(match.begin, match.end);
}

}  // namespace

void bind_regex(nb::module_& m) {
  nb::class_<Regex>(m, "Regex")
      .def(
          "__init__", [](Regex* self, const std::string& pattern) { new (self) Regex(pattern); },
          nb::arg("pattern"))
      .def("split", &split_all, nb::arg("data"), nb::arg("capacity") = size_t{4096})
      .def("find", &find_one, nb::arg("data"), nb::arg("from_") = size_t{0})
      .def_prop_ro("is_dfa", &Regex::is_dfa)
      .def_prop_ro("matches_empty", &Regex::matches_empty)
      .def_prop_ro("held_bytes", &Regex::bytes);
}

}  // namespace krill::bindings
