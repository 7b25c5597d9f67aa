// What the kernels of conv1d_kernels.inl take.
#pragma once

#include <cstdint>

namespace optest {

// What some columns are convolved with.
struct Taps {
  const float* weight;  // [width][apart]
  const float* bias;
  int64_t apart;
  int64_t width;
  bool silu;
};

}  // namespace optest
