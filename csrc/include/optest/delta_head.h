// What the kernels of delta_rule_kernels.inl take.
#pragma once

#include <cstdint>

namespace optest {

// One head of v of one sequence. Steps from token to token are in elements.
struct DeltaHead {
  const void* q;
  const void* k;
  const void* v;
  void* out;
  const float* g;
  const float* beta;
  float* state;  // [key_size][value_size]
  float* room;   // two times key_size
  int64_t q_token, k_token, v_token, out_token, gate_token;
  int64_t tokens, key_size, value_size;
  float scale;
};

}  // namespace optest
