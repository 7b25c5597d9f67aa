// Where two sides lie that are judged together.
#pragma once

#include "optest/vendor.h"

#include <cstdint>

namespace optest {

// Between what is judged and what is asked of memory. AMD's cores fetch far enough ahead by themselves:
// asked for more, they take a fifth longer over fp32. Intel's get more from memory when asked.
inline const int64_t kBytesAhead = is_amd() ? 1024 : 4096;

// n values of either side, at fixed steps in bytes. As many as `follows` says lie behind them, at the
// same steps, and are read next; where there are none, the next run begins so many bytes further on.
struct PairRun {
  const char* a;
  const char* b;
  int64_t a_step;
  int64_t b_step;
  int64_t n;
  int64_t follows = 0;
  int64_t a_next = 0;
  int64_t b_next = 0;
};

}  // namespace optest
