// Whose CPU this is: how memory is best asked for differs.
#pragma once

namespace optest {

inline bool is_amd() {
#if defined(__x86_64__)
  return __builtin_cpu_is("amd");
#else
  return false;
#endif
}

inline const bool kIsAmd = is_amd();

}  // namespace optest
