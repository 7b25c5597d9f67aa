// Which instruction set the kernels of this library run on: the best this CPU has, or the one that
// OPTEST_ISA names.
#pragma once

#include <cctype>
#include <cstdlib>
#include <stdexcept>
#include <string>

#if defined(__x86_64__)
#define OPTEST_X86 1
#elif defined(__aarch64__)
#define OPTEST_NEON 1
#endif

namespace optest {

enum class Isa { portable, neon, avx2, avx512 };

inline bool cpu_has(Isa isa) {
  switch (isa) {
    case Isa::portable:
      return true;
#ifdef OPTEST_X86
    case Isa::avx2:  // and F16C, which no such CPU lacks and clang 14 cannot ask for
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case Isa::avx512:
      return cpu_has(Isa::avx2) && __builtin_cpu_supports("avx512f") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vl");
#endif
#ifdef OPTEST_NEON
    case Isa::neon:
      return true;
#endif
    default:
      return false;
  }
}

struct NamedIsa {
  const char* name;
  Isa isa;
};

// Best first.
inline constexpr NamedIsa kIsas[] = {
    {"avx512", Isa::avx512},
    {"avx2", Isa::avx2},
    {"neon", Isa::neon},
    {"portable", Isa::portable},
};

inline std::string cpu_isas() {
  std::string names;
  for (const NamedIsa& known : kIsas) {
    if (cpu_has(known.isa)) names += (names.empty() ? "" : ", ") + std::string(known.name);
  }
  return names;
}

// OPTEST_ISA in lower case without blanks; empty where it is unset.
inline std::string wanted_isa() {
  const char* text = std::getenv("OPTEST_ISA");
  std::string name;
  for (; text != nullptr && *text != '\0'; ++text) {
    if (!std::isspace(static_cast<unsigned char>(*text))) {
      name += static_cast<char>(std::tolower(static_cast<unsigned char>(*text)));
    }
  }
  return name;
}

inline const NamedIsa& choose_isa() {
  const std::string wanted = wanted_isa();
  for (const NamedIsa& known : kIsas) {
    if (cpu_has(known.isa) && (wanted.empty() || wanted == known.name)) return known;
  }
  throw std::invalid_argument("OPTEST_ISA=" + wanted + ": this CPU runs " + cpu_isas() +
                              ". Name one of these or unset it.");
}

// Read once: the environment is not looked at again after the first kernel has run.
inline Isa current_isa() {
  static const Isa isa = choose_isa().isa;
  return isa;
}

}  // namespace optest

// The compilation of `function` (any expression that names one) for the current instruction set. The
// function must live in a file that was included through optest/each_isa.h.
#if defined(OPTEST_X86)
#define OPTEST_SELECT(...)                                                           \
  (::optest::current_isa() == ::optest::Isa::avx512 ? &::optest::avx512::__VA_ARGS__ \
   : ::optest::current_isa() == ::optest::Isa::avx2 ? &::optest::avx2::__VA_ARGS__   \
                                                    : &::optest::portable::__VA_ARGS__)
#elif defined(OPTEST_NEON)
#define OPTEST_SELECT(...)                                                       \
  (::optest::current_isa() == ::optest::Isa::neon ? &::optest::neon::__VA_ARGS__ \
                                                  : &::optest::portable::__VA_ARGS__)
#else
#define OPTEST_SELECT(...) (&::optest::portable::__VA_ARGS__)
#endif
