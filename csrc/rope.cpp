// Rotary position embedding of queries and keys in place, fp32 inside and rounded once:
//
//     rope                 the first rotary_dim elements of each head turn by their token's position
//     fused_qk_norm_rope   the same after an RMSNorm of each head
//
// q [tokens, heads, head_size] and k [tokens, kv_heads, head_size] are bf16, fp16 or fp32 alike, tokens
// and heads of any stride; cos_sin [positions, rotary_dim] (cosines, then sines) is any of the three.

#include <vector>

#include "optest/parallel.h"
#include "optest/tensor.h"
#include "optest/types.h"

#define OPTEST_KERNELS "../../rope_kernels.inl"
#include "optest/each_isa.h"
#include "optest/columns.h"

namespace optest {
namespace {

struct Kernels {
  decltype(&portable::turn_heads<float>) turn_heads;
  decltype(&portable::norm_and_turn_heads<float>) norm_and_turn_heads;
};

template <class T>
Kernels kernels_of() {
  return {OPTEST_SELECT(turn_heads<T>), OPTEST_SELECT(norm_and_turn_heads<T>)};
}

Kernels kernels_for(const Tensor& q) {
  return by_float_dtype("q", q, [](auto element) { return kernels_of<decltype(element)>(); });
}

// [tokens, heads, size] in memory of any strides but the last.
struct Heads {
  Heads(const char* name, const Tensor& x) {
    check(x.dim() == 3, name, " has shape ", shape_of(x), ", expected [tokens, heads, head_size]");
    check_dense_last(name, x);
    first = static_cast<char*>(x.data_ptr());
    tokens = x.size(0);
    count = x.size(1);
    size = x.size(2);
    step = x.stride(1);
    itemsize = static_cast<int64_t>(x.element_size());
    token_bytes = x.stride(0) * itemsize;
  }
  char* of(int64_t token) const { return first + token * token_bytes; }
  int64_t bytes_a_token() const { return count * size * itemsize; }

  char* first;
  int64_t tokens, count, size, step, itemsize, token_bytes;
};

// The table of angles, and where in it each token stands.
struct Angles {
  Angles(const Tensor& positions, const Tensor& cos_sin, const Heads& q) {
    check_dtype("positions", positions, ScalarType::Long);
    check(positions.dim() == 1 && positions.size(0) == q.tokens && positions.is_contiguous(),
          "positions has shape ", shape_of(positions), ", expected [", q.tokens, "], contiguous");
    read = by_float_dtype("cos_sin", cos_sin, [](auto element) {
      return OPTEST_SELECT(read_angles<decltype(element)>);
    });
    check(cos_sin.dim() == 2 && cos_sin.is_contiguous(), "cos_sin has shape ", shape_of(cos_sin),
          ", expected [positions, rotary_dim], contiguous");
    rotary = cos_sin.size(1);
    check(rotary % 2 == 0 && rotary <= q.size, "cos_sin has shape ", shape_of(cos_sin),
          ", expected an even rotary_dim of ", q.size, " at most");
    at = static_cast<const int64_t*>(positions.data_ptr());
    for (int64_t i = 0; i < q.tokens; ++i) {
      check(at[i] >= 0 && at[i] < cos_sin.size(0), "positions[", i, "] is ", at[i],
            ", expected one of the ", cos_sin.size(0), " in cos_sin");
    }
    table = static_cast<const char*>(cos_sin.data_ptr());
    row_bytes = rotary * static_cast<int64_t>(cos_sin.element_size());
  }
  const char* of(int64_t token) const { return table + at[token] * row_bytes; }

  int64_t rotary, row_bytes;
  const int64_t* at;
  const char* table;
  decltype(&portable::read_angles<float>) read;
};

// Calls turn(heads, token, cos, sin) for all tokens on all threads, with q, then with k.
template <class Turn>
void for_tokens(const Heads& q, const Heads& k, const Angles& angles, bool neox, const Turn& turn) {
  const auto room_for = OPTEST_SELECT(angles_room);
  const auto room = static_cast<size_t>(room_for(angles.rotary));
  parallel_rows(q.tokens, q.bytes_a_token() + k.bytes_a_token(), [&](int64_t begin, int64_t end) {
    std::vector<float> cos(room), sin(room);
    for (int64_t token = begin; token < end; ++token) {
      angles.read(angles.of(token), cos.data(), sin.data(), angles.rotary, neox);
      turn(q, token, cos.data(), sin.data());
      turn(k, token, cos.data(), sin.data());
    }
  });
}

void check_pair(const Tensor& q, const Tensor& k) {
  check_dtype("k", k, q.scalar_type());
  check(k.dim() == 3 && k.size(0) == q.size(0) && k.size(2) == q.size(2), "k has shape ",
        shape_of(k), ", expected [", q.size(0), ", kv_heads, ", q.size(2), "], as q ", shape_of(q));
}

void rope(Tensor q, Tensor k, Tensor positions, Tensor cos_sin, bool is_neox) {
  const Kernels kernels = kernels_for(q);
  const Heads queries("q", q);
  check_pair(q, k);
  const Angles angles(positions, cos_sin, queries);
  for_tokens(queries, Heads("k", k), angles, is_neox,
             [&](const Heads& x, int64_t token, const float* cos, const float* sin) {
               kernels.turn_heads(x.of(token), x.count, x.step, cos, sin, angles.rotary, is_neox);
             });
}

// With room for a whole vector from any of them on: what does not turn begins anywhere.
std::vector<float> weights_of(const char* name, const Tensor& weight, int64_t size) {
  std::vector<float> weights = columns_of<float>(name, weight, size);
  const auto room_for = OPTEST_SELECT(angles_room);
  weights.resize(weights.size() + static_cast<size_t>(room_for(1)));
  return weights;
}

void fused_qk_norm_rope(Tensor q, Tensor k, Tensor q_weight, Tensor k_weight, Tensor positions,
                        Tensor cos_sin, double eps, bool is_neox) {
  const Kernels kernels = kernels_for(q);
  const Heads queries("q", q);
  check_pair(q, k);
  const Angles angles(positions, cos_sin, queries);
  const Heads keys("k", k);
  const std::vector<float> for_q = weights_of("q_weight", q_weight, queries.size);
  const std::vector<float> for_k = weights_of("k_weight", k_weight, queries.size);
  for_tokens(queries, keys, angles, is_neox,
             [&](const Heads& x, int64_t token, const float* cos, const float* sin) {
               const std::vector<float>& weight = &x == &keys ? for_k : for_q;
               kernels.norm_and_turn_heads(x.of(token), x.count, x.step, cos, sin, angles.rotary,
                                           is_neox, weight.data(), x.size, static_cast<float>(eps));
             });
}

}  // namespace
}  // namespace optest

STABLE_TORCH_LIBRARY_FRAGMENT(optest, m) {
  m.def(
      "rope(Tensor(a!) q, Tensor(b!) k, Tensor positions, Tensor cos_sin, bool is_neox) -> ()");
  m.def(
      "fused_qk_norm_rope(Tensor(a!) q, Tensor(b!) k, Tensor q_weight, Tensor k_weight, "
      "Tensor positions, Tensor cos_sin, float eps, bool is_neox) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(optest, CPU, m) {
  m.impl("rope", TORCH_BOX(&optest::rope));
  m.impl("fused_qk_norm_rope", TORCH_BOX(&optest::fused_qk_norm_rope));
}
