#include <nanobind/nanobind.h>
#include <nanobind/stl/string_view.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <fcntl.h>
#include <unistd.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

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

void trim() {
#ifdef __GLIBC__
  nb::gil_scoped_release release;
  malloc_trim(0);
#endif
}

// What the process holds, or -1 where the system doesn't say. Asked for with every block of work, so it is
// three system calls and nothing else; the file is opened each time, since after a fork it is another's.
std::int64_t resident_bytes() {
  const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return -1;
  char line[128];
  const ssize_t size = read(file, line, sizeof(line) - 1);
  close(file);
  if (size <= 0) return -1;
  line[size] = '\0';
  unsigned long long pages = 0;
  if (std::sscanf(line, "%*u %llu", &pages) != 1) return -1;
  return static_cast<std::int64_t>(pages) * sysconf(_SC_PAGESIZE);
}

// Python's garbage collector works in the thread that it happens to come up in.
thread_local bool collecting = false;

}  // namespace

void bind_memory(nb::module_& m) {
  m.def("configure_malloc", &configure_malloc, nb::arg("mapped_from") = kMappedFrom);
  m.def("trim", &trim);
  m.def("resident_bytes", &resident_bytes);
  m.def("note_collection", [](std::string_view phase, nb::handle) { collecting = phase == "start"; },
        nb::arg("phase"), nb::arg("info"));
  m.def("collection_runs_here", [] { return collecting; });
}
