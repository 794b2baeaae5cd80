#include "budget/guard.hpp"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __linux__
#include <link.h>
#include <sys/mman.h>
#endif

namespace krill::budget {

namespace {

// What may become resident in a millisecond, in huge pages or by one large read; in small ones two threads
// touch 4 MB.
constexpr int64_t kGrowthPerMillisecond = 30'000'000;
constexpr int64_t kLongestMilliseconds = 20;
constexpr int64_t kShortestNanoseconds = 100'000;
// It takes 1 to 3 ms, in which two threads touch 12 MB.
constexpr int64_t kReleasesBefore = 16'000'000;
constexpr int64_t kBetweenReleases = 100'000'000;
constexpr size_t kStackBytes = 64 * 1024;

// Where all cores are busy, a thread with a short slice is let on before others (Linux 6.12); else nothing
// happens.
void ask_for_short_slices() {
#ifdef SYS_sched_setattr
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } settings{};
  settings.size = sizeof(settings);
  settings.nice = getpriority(PRIO_PROCESS, 0);
  settings.runtime = static_cast<uint64_t>(kShortestNanoseconds);
  syscall(SYS_sched_setattr, 0, &settings, 0U);
#endif
}

#ifdef __linux__

// A library that the loader had to write into, which no compiler of today makes, would lose what was written.
bool has_text_relocations(const dl_phdr_info& object) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    if (object.dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    const auto* entry = reinterpret_cast<const ElfW(Dyn)*>(object.dlpi_addr + object.dlpi_phdr[i].p_vaddr);
    for (; entry->d_tag != DT_NULL; ++entry) {
      if (entry->d_tag == DT_TEXTREL) return true;
      if (entry->d_tag == DT_FLAGS && (entry->d_un.d_val & DF_TEXTREL) != 0) return true;
    }
  }
  return false;
}

// The loader keeps an object where it is until this returns. Segments that can be written are left alone.
int release_object(dl_phdr_info* object, size_t, void*) {
  if (has_text_relocations(*object)) return 0;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) != 0) continue;
    const uintptr_t begin = (object->dlpi_addr + segment.p_vaddr + page - 1) / page * page;
    const uintptr_t end = (object->dlpi_addr + segment.p_vaddr + segment.p_filesz) / page * page;
    if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }
  return 0;
}

#endif

}  // namespace

void release_code() {
#ifdef __linux__
  dl_iterate_phdr(&release_object, nullptr);
#endif
}

// The file is opened each time, since after a fork it is another's.
int64_t resident_bytes() {
  const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return -1;
  char line[128];
  const ssize_t size = read(file, line, sizeof(line) - 1);
  close(file);
  if (size <= 0) return -1;
  line[size] = '\0';
  unsigned long long pages = 0;
  if (std::sscanf(line, "%*u %llu", &pages) != 1) return -1;
  return static_cast<int64_t>(pages) * sysconf(_SC_PAGESIZE);
}

MemoryGuard::MemoryGuard(int64_t ends_at, std::string message, int exit_code)
    : ends_at_(ends_at), message_(std::move(message)), exit_code_(exit_code) {}

MemoryGuard::~MemoryGuard() { stop(); }

bool MemoryGuard::start() {
  if (started_ || resident_bytes() < 0) return started_;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, std::max<size_t>(kStackBytes, PTHREAD_STACK_MIN));
  stopped_.store(false);
  started_ = pthread_create(&thread_, &attributes, &MemoryGuard::run, this) == 0;
  pthread_attr_destroy(&attributes);
  return started_;
}

void MemoryGuard::stop() {
  if (!started_) return;
  stopped_.store(true);
  pthread_join(thread_, nullptr);
  started_ = false;
}

void* MemoryGuard::run(void* self) {
  static_cast<MemoryGuard*>(self)->watch();
  return nullptr;
}

void MemoryGuard::watch() {
  ask_for_short_slices();
  int64_t since_release = kBetweenReleases;
  while (!stopped_.load(std::memory_order_relaxed)) {
    int64_t left = ends_at_ - resident_bytes();
    // Some time before the end: other threads go on allocating while code is let go.
    if (left <= kReleasesBefore && since_release >= kBetweenReleases) {
      release_code();
      since_release = 0;
      left = ends_at_ - resident_bytes();
    }
    if (left <= 0) end_process();
    const int64_t wait = std::clamp(left * 1'000'000 / kGrowthPerMillisecond, kShortestNanoseconds,
                                    kLongestMilliseconds * 1'000'000);
    const timespec pause{0, static_cast<long>(wait)};
    nanosleep(&pause, nullptr);
    since_release = std::min(since_release + wait, kBetweenReleases);
  }
}

// Other threads go on allocating meanwhile: nothing here may wait, not for a reader of standard error either.
void MemoryGuard::end_process() const {
  pollfd output{STDERR_FILENO, POLLOUT, 0};
  if (poll(&output, 1, 0) == 1 && (output.revents & POLLOUT) != 0) {
    if (isatty(STDERR_FILENO) != 0) {
      // A progress bar has hidden the cursor.
      constexpr char kShowCursor[] = "\r\x1b[2K\x1b[?25h";
      [[maybe_unused]] const auto shown = write(STDERR_FILENO, kShowCursor, sizeof(kShowCursor) - 1);
    }
    [[maybe_unused]] const auto written = write(STDERR_FILENO, message_.data(), message_.size());
  }
  _exit(exit_code_);
}

}  // namespace krill::budget
