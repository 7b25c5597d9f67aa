// Cache lines written back and dropped from every level of every core's caches, by address.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace optest {

inline constexpr int64_t kLine = 64;

#if defined(__x86_64__)

#define OPTEST_CAN_EVICT 1

inline bool has_clflushopt() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> 23 & 1);
}

__attribute__((target("clflushopt"))) inline void evict_unordered(char* at, char* end) {
  for (; at < end; at += kLine) _mm_clflushopt(at);
}

// Without the unordered form each line waits for the one before: slower, the same in effect.
inline void evict(char* at, char* end) {
  static const bool unordered = has_clflushopt();
  if (unordered) {
    evict_unordered(at, end);
  } else {
    for (; at < end; at += kLine) _mm_clflush(at);
  }
  _mm_mfence();
}

#elif defined(__aarch64__)

#define OPTEST_CAN_EVICT 1

inline void evict(char* at, char* end) {
  for (; at < end; at += kLine) asm volatile("dc civac, %0" : : "r"(at) : "memory");
  asm volatile("dsb ish" : : : "memory");
}

#endif

}  // namespace optest
