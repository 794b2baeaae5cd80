#include <nanobind/nanobind.h>

#include <cstdlib>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace nb = nanobind;

namespace {

// Freed memory is to go back to the system, so that a peak is the work's and not the allocator's:
// few arenas, since each keeps its own free lists; batches in mappings of their own; a short heap top.
// Setting a threshold also stops glibc from raising it by itself.
void configure_malloc() {
#ifdef __GLIBC__
  mallopt(M_ARENA_MAX, 2);
  mallopt(M_MMAP_THRESHOLD, 256 * 1024);
  mallopt(M_TRIM_THRESHOLD, 1024 * 1024);
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
