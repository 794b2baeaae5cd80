// What an x86-64 processor has beyond the baseline, and the system lets programs use.
//
// By its own instructions: `__builtin_cpu_supports` reads a table that compilers keep in a library of theirs,
// which Zig's lacks; a module would then not load.
#pragma once

#if defined(__x86_64__)

#include <cpuid.h>

#include <cstdint>

namespace krill {

struct Processor {
  bool avx2 = false;
  bool avx512_bytes = false;    // F, BW and VBMI2, with BMI and BMI2
  bool avx512_permute = false;  // VBMI

  static const Processor& of_this_machine() {
    static const Processor found = look();
    return found;
  }

 private:
  static Processor look() {
    const auto has = [](uint32_t word, auto... bits) { return ((word >> bits & 1) & ...) != 0; };
    uint32_t a = 0, b = 0, c = 0, d = 0;
    // Without OSXSAVE nobody saves the wide registers when programs take turns.
    if (__get_cpuid(1, &a, &b, &c, &d) == 0 || !has(c, 27, 28)) return {};
    uint32_t saved = 0, upper = 0;
    __asm__("xgetbv" : "=a"(saved), "=d"(upper) : "c"(0));
    if (!has(saved, 1, 2) || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return {};
    Processor found;
    found.avx2 = has(b, 5);
    found.avx512_bytes = has(saved, 5, 6, 7) && has(b, 3, 8, 16, 30) && has(c, 6);
    found.avx512_permute = found.avx512_bytes && has(c, 1);
    return found;
  }
};

}  // namespace krill

#endif
