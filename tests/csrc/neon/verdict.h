// A printed line for each check, and the exit code of them all.
#pragma once

#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <string>

#include "numbers.h"

namespace check {

inline int failures = 0;

class Verdict {
 public:
  explicit Verdict(std::string name) : name_(std::move(name)) {}
  Verdict(const Verdict&) = delete;
  ~Verdict() {
    // A check that compared nothing has not been made.
    const bool good = wrong_ == 0 && compared_ > 0;
    failures += !good;
    std::printf("%s %s: %" PRId64 " compared, %" PRId64 " wrong%s\n", good ? "ok  " : "FAIL",
                name_.c_str(), compared_, wrong_, first_.c_str());
    std::fflush(stdout);  // a fault of the machine may end the next check
  }

  void take(bool good, const char* where, int64_t i, double got, double want) {
    ++compared_;
    if (good || wrong_++ != 0) return;
    char words[160];
    std::snprintf(words, sizeof words, ", first in %s at %" PRId64 ": got %.9g, want %.9g", where, i,
                  got, want);
    first_ = words;
  }

  // Equal in every bit; any NaN is as good as another.
  template <class T>
  void same(const char* where, const T* got, const T* want, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      double a, b;
      if constexpr (std::is_integral_v<T> || std::is_floating_point_v<T>) {
        a = static_cast<double>(got[i]);
        b = static_cast<double>(want[i]);
      } else {
        a = wide(got[i]);
        b = wide(want[i]);
      }
      const bool nan = std::isnan(a) && std::isnan(b);
      take(nan || std::memcmp(got + i, want + i, sizeof(T)) == 0, where, i, a, b);
    }
  }
  void equal(const char* where, int64_t got, int64_t want) {
    take(got == want, where, 0, static_cast<double>(got), static_cast<double>(want));
  }

  // Within `relative` of `want` and `absolute` besides; NaN and infinities as they are.
  void near(const char* where, int64_t i, double got, double want, double relative,
            double absolute) {
    const bool nan = std::isnan(got) && std::isnan(want);
    const bool close = std::fabs(got - want) <= std::fabs(want) * relative + absolute;
    take(nan || got == want || close, where, i, got, want);
  }

 private:
  std::string name_;
  std::string first_;
  int64_t compared_ = 0;
  int64_t wrong_ = 0;
};

inline int exit_code() {
  std::printf("%d failed\n", failures);
  return failures == 0 ? 0 : 1;
}

}  // namespace check
