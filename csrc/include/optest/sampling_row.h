// What the kernels of sampling_kernels.inl take.
#pragma once

#include "optest/picked_room.h"

#include <cstdint>
#include <vector>

namespace optest {

// What is asked of one row.
struct Limits {
  int64_t top_k;
  double top_p;
  float min_p;
  double uniform;
};

// Room for what is picked from a row, for its weights and for sums of a row's, kept from row to row.
struct Scratch {
  PickedRoom picked;
  Raw<uint64_t> vectors;
  Raw<float> weights;
  Raw<float> some;  // of the weights
  std::vector<double> runs;
  std::vector<float> scales;
};

}  // namespace optest
