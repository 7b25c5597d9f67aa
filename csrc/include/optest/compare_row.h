// What the kernels of compare_kernels.inl take and give.
#pragma once

#include <cstdint>
#include <limits>

#include "optest/pair_run.h"

namespace optest {

// Eight bits whose value a table of 256 fp32 numbers gives.
struct Code8 {
  uint8_t bits;
};

struct CompareBounds {
  double rtol;
  double atol;
  bool equal_nan;
  double gross_floor;
};

// The columns of checking/table.py, in that order.
struct CompareRow {
  double mismatched = 0;
  double nonfinite = 0;
  double gross = 0;
  double different = 0;
  double nan_reference = 0;
  double nan_candidate = 0;
  double inf_reference = 0;
  double inf_candidate = 0;
  double sum_reference = 0;
  double sum_difference = 0;
  double max_abs = 0;
  double peak = 0;
  double margin = -std::numeric_limits<double>::infinity();
};
constexpr int64_t kColumns = sizeof(CompareRow) / sizeof(double);

struct CompareRun : PairRun {
  const float* codes;
};

}  // namespace optest
