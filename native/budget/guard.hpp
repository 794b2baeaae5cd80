// The guard: ends a process that is about to hold more than its budget.
//
// A thread of its own, as Python's may wait for the interpreter's lock while native code goes on allocating.
// It looks more often the less is left, so that what can be touched meanwhile is less than that. A look is
// three system calls, 3 us.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include <pthread.h>

namespace krill::budget {

// What the process holds, or -1 where the system doesn't say.
int64_t resident_bytes();

// Lets go of the pages of programs and libraries that are mapped from their files and were never written:
// code that ran while modules were loaded counts as held for ever otherwise. What is still used is mapped
// again from the page cache when it is touched. 35 of 65 MB after start, in 1 to 2 ms; does nothing where the
// system can't.
void release_code();

class MemoryGuard {
 public:
  // When it holds `ends_at` bytes the process ends with `exit_code`; `message` is written to standard error
  // before. When little is left, code is released.
  MemoryGuard(int64_t ends_at, std::string message, int exit_code);
  MemoryGuard(const MemoryGuard&) = delete;
  MemoryGuard& operator=(const MemoryGuard&) = delete;
  ~MemoryGuard();

  // False where the system has no room for one more thread, or doesn't say what a process holds.
  bool start();
  void stop();

 private:
  static void* run(void* self);
  void watch();
  [[noreturn]] void end_process() const;

  const int64_t ends_at_;
  const std::string message_;
  const int exit_code_;
  std::atomic<bool> stopped_{false};
  bool started_ = false;
  pthread_t thread_{};
};

}  // namespace krill::budget
