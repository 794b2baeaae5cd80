#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "budget/guard.hpp"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace krill::bindings {

namespace nb = nanobind;

namespace {

// A peak is to be the work's and not the allocator's, and blocks of a mebibyte are to be reused, not mapped
// anew each time: a first touch costs 0.6 ms a megabyte. One heap for all threads, whose free memory serves
// all of them; what is larger than a block, from `mapped_from` bytes on, in a mapping of its own; a top that
// is given back. Setting a threshold also stops glibc from raising it by itself.
constexpr int kMappedFrom = 4 * 1024 * 1024;
constexpr int kLargestMappedFrom = 32 * 1024 * 1024;  // glibc takes no more

void configure_malloc(int mapped_from) {
#ifdef __GLIBC__
  const int from = std::clamp(mapped_from, kMappedFrom, kLargestMappedFrom);
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MMAP_THRESHOLD, from);
  mallopt(M_TRIM_THRESHOLD, 4 * from);
#else
  (void)mapped_from;
#endif
}

void trim(bool code) {
  nb::gil_scoped_release release;
#ifdef __GLIBC__
  malloc_trim(0);
#endif
  if (code) budget::release_code();
}

// Python's garbage collector works in the thread that it happens to come up in.
thread_local bool collecting = false;

}  // namespace

void bind_memory(nb::module_& m) {
  m.def("configure_malloc", &configure_malloc, nb::arg("mapped_from") = kMappedFrom);
  m.def("trim", &trim, nb::arg("code") = false);
  m.def("resident_bytes", &budget::resident_bytes);
  nb::class_<budget::MemoryGuard>(m, "MemoryGuard")
      .def(nb::init<int64_t, std::string, int>(), nb::arg("ends_at"), nb::arg("message"),
           nb::arg("exit_code"))
      .def("start", &budget::MemoryGuard::start)
      .def("stop", &budget::MemoryGuard::stop, nb::call_guard<nb::gil_scoped_release>());
  m.def(
      "note_collection", [](std::string_view phase, nb::handle) { collecting = phase == "start"; },
      nb::arg("phase"), nb::arg("info"));
  m.def("collection_runs_here", [] { return collecting; });
}

}  // namespace krill::bindings
