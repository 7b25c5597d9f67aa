// What multiplies short numbers on an x86 CPU with AVX-512: VNNI's dot products, those of pairs of bf16,
// AMX's tiles.
#pragma once

#include "optest/isa.h"

#include <algorithm>
#include <atomic>
#include <cstdint>

#if defined(OPTEST_X86)
#include <cpuid.h>
#endif
#if defined(OPTEST_X86) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace optest {

// Each takes the CPU to have those before it.
enum class DotUnit : int64_t { none, vnni, bf16, amx };

#if defined(OPTEST_X86) && defined(__linux__)
// The system keeps the tiles' 8 KiB of a thread only for processes that have asked for them.
inline bool tiles_are_granted() {
  constexpr long request_permission = 0x1023;
  constexpr long tile_data = 18;
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}
#else
inline bool tiles_are_granted() { return false; }
#endif

inline DotUnit best_dot_unit() {
#if defined(OPTEST_X86)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (current_isa() != Isa::avx512 || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
    return DotUnit::none;
  }
  const bool vnni = (c >> 11 & 1) != 0;
  const bool vbmi = (c >> 1 & 1) != 0;
  const bool tiles = (d >> 22 & 1) != 0 && (d >> 24 & 1) != 0 && (d >> 25 & 1) != 0;
  const bool bf16 = __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 5 & 1) != 0;
  if (!vnni) return DotUnit::none;
  if (!bf16 || !vbmi) return DotUnit::vnni;
  return tiles && tiles_are_granted() ? DotUnit::amx : DotUnit::bf16;
#else
  return DotUnit::none;
#endif
}

// No better unit than this one is used: lowered by tests, which have to run each.
inline std::atomic<int64_t>& dot_unit_limit() {
  static std::atomic<int64_t> limit{static_cast<int64_t>(DotUnit::amx)};
  return limit;
}

inline DotUnit current_dot_unit() {
  static const DotUnit best = best_dot_unit();
  return static_cast<DotUnit>(std::min(static_cast<int64_t>(best), dot_unit_limit().load()));
}

// For tests: the best unit that a library uses from now on, a number of DotUnit. Gives the one in use.
inline int64_t limit_dot_unit(int64_t unit) {
  dot_unit_limit().store(unit);
  return static_cast<int64_t>(current_dot_unit());
}

}  // namespace optest
