// What the kernels of gates_kernels.inl take and give.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace optest {

// atol and rtol, or the threshold of relative differences and the floor of their denominators.
struct GateBounds {
  double first;
  double second;
  bool ignore_nan;
};

// The columns of checking/gate.py, in that order.
struct GateRow {
  double bad = 0;
  double nan_actual = 0;
  double inf_actual = 0;
  double nan_expected = 0;
  double inf_expected = 0;
  double ignored = 0;
  double worst = 0;
  double changed = 0;
};
constexpr int64_t kGateColumns = sizeof(GateRow) / sizeof(double);

constexpr int64_t kMostThresholds = 32;
// Levels ascend. An element is above one where |a - e| reaches it, and |a - e| divided by
// max(|a|, |e|, floor) + 1e-9 is greater than it.
struct SpreadThresholds {
  int64_t n = 0;
  // Of so many, the first, a floor can be larger than |a| and |e| of an element that is above.
  int64_t floored = 0;
  float level[kMostThresholds];
  float floor[kMostThresholds];
  // The least |a - e| that reaches a level and is greater than it when divided by the floor: an element
  // is above where |a - e| reaches this and its relative difference, without a floor, is greater.
  float least[kMostThresholds];

  SpreadThresholds(int64_t count, const float* levels, const float* floors) : n(count) {
    for (int64_t t = 0; t < n; ++t) {
      level[t] = levels[t];
      floor[t] = floors[t];
      least[t] = std::max(level[t], least_above(level[t], floor[t] + 1e-9f));
      if (least[t] < 2 * floor[t]) floored = t + 1;  // |a - e| is at most twice the larger of both
    }
  }

 private:
  // Of the numbers that, divided by `size`, are greater than `share`; infinite where none is.
  static float least_above(float share, float size) {
    float least = share * size;
    if (!std::isfinite(least)) return HUGE_VALF;
    while (least / size > share) least = std::nextafter(least, 0.0f);
    while (!std::isinf(least) && !(least / size > share)) least = std::nextafter(least, HUGE_VALF);
    return least;
  }
};

// A bin for each bf16 number that is not negative; what one thread has counted.
constexpr int64_t kBins = 1 << 15;
constexpr uint32_t kCopyBits = 1;
constexpr uint32_t kCopies = 1 << kCopyBits;  // of each bin, side by side
struct SpreadPart {
  uint32_t* absolute;
  uint32_t* relative;
  uint32_t* expected;
  int64_t equal = 0;
  int64_t left_out = 0;  // of the bins: not finite, or padding
  int64_t padded = 0;
  int64_t nan_actual = 0;
  int64_t inf_actual = 0;
  int64_t nan_expected = 0;
  int64_t inf_expected = 0;
  double sum_difference = 0;
  double sum_expected = 0;
  double sum_actual = 0;
  double sum_product = 0;
  double sum_magnitude = 0;
  float max_abs = 0;
  float max_relative = 0;
  float max_expected = 0;
  int64_t above[kMostThresholds] = {};
  float worst[kMostThresholds] = {};
};

}  // namespace optest
