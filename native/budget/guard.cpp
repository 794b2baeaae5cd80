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

namespace krill {

namespace {

// What may become resident in a millisecond, in huge pages; in small ones two threads touch 4 MB.
constexpr std::int64_t kGrowthPerMillisecond = 10'000'000;
constexpr std::int64_t kLongestMilliseconds = 20;
constexpr std::int64_t kShortestNanoseconds = 100'000;
constexpr std::size_t kStackBytes = 64 * 1024;

// Where all cores are busy, a thread with a short slice is let on before others (Linux 6.12); else nothing happens.
void ask_for_short_slices() {
#ifdef SYS_sched_setattr
  struct {
    std::uint32_t size, policy;
    std::uint64_t flags;
    std::int32_t nice;
    std::uint32_t priority;
    std::uint64_t runtime, deadline, period;
  } settings{};
  settings.size = sizeof(settings);
  settings.nice = getpriority(PRIO_PROCESS, 0);
  settings.runtime = static_cast<std::uint64_t>(kShortestNanoseconds);
  syscall(SYS_sched_setattr, 0, &settings, 0U);
#endif
}

}  // namespace

// The file is opened each time, since after a fork it is another's.
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

MemoryGuard::MemoryGuard(std::int64_t ends_at, std::string message, int exit_code)
    : ends_at_(ends_at), message_(std::move(message)), exit_code_(exit_code) {}

MemoryGuard::~MemoryGuard() { stop(); }

bool MemoryGuard::start() {
  if (started_ || resident_bytes() < 0) return started_;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, std::max<std::size_t>(kStackBytes, PTHREAD_STACK_MIN));
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
  while (!stopped_.load(std::memory_order_relaxed)) {
    const std::int64_t left = ends_at_ - resident_bytes();
    if (left <= 0) end_process();
    const std::int64_t wait = std::clamp(left * 1'000'000 / kGrowthPerMillisecond, kShortestNanoseconds,
                                         kLongestMilliseconds * 1'000'000);
    const timespec pause{0, static_cast<long>(wait)};
    nanosleep(&pause, nullptr);
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

}  // namespace krill
