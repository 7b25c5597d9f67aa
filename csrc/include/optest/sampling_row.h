// What the kernels of sampling_kernels.inl take.
#pragma once

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

// Room for the best of a row, for their weights and for sums of a row's, kept from row to row.
struct Scratch {
  std::vector<uint64_t> kept;
  std::vector<float> weights;
  std::vector<double> runs;
};

}  // namespace optest
