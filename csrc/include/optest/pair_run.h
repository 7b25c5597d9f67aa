// Where two sides lie that are judged together.
#pragma once

#include <cstdint>

namespace optest {

// n values of either side, at fixed steps in bytes.
struct PairRun {
  const char* a;
  const char* b;
  int64_t a_step;
  int64_t b_step;
  int64_t n;
};

}  // namespace optest
