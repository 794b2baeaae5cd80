#include <nanobind/nanobind.h>

#include <cstdlib>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace nb = nanobind;

namespace {

// A peak is to be the work's and not the allocator's, and blocks of a mebibyte are to be reused, not mapped
// anew each time: a first touch costs 0.6 ms a megabyte. One heap for all threads, whose free memory serves
// all of them; what is larger than a block in a mapping of its own; a top that is given back.
// Setting a threshold also stops glibc from raising it by itself.
constexpr int kMappedFrom = 4 * 1024 * 1024;
constexpr int kTopKept = 16 * 1024 * 1024;

void configure_malloc() {
#ifdef __GLIBC__
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MMAP_THRESHOLD, kMappedFrom);
  mallopt(M_TRIM_THRESHOLD, kTopKept);
#endif
}

void trim() {
#ifdef __GLIBC__
  nb::gil_scoped_release release;
  malloc_trim(0);
#endif
}

}  // namespace

void bind_memory(nb::module_& m) {
  m.def("configure_malloc", &configure_malloc);
  m.def("trim", &trim);
}
