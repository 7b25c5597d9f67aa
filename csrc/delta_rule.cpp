// The gated delta rule (linear attention) by its recurrence, fp32 inside; for each token of a sequence
//
//     S = exp(g) S;  S = S + k ((v - S^T k) beta)^T;  out = scale * S^T q
//
// q, k [sequences, tokens, k_heads, key_size], v, out [sequences, tokens, v_heads, value_size] bf16, fp16 or
// fp32 alike, of any strides but in the last dimension; g, beta [sequences, tokens, v_heads] fp32, contiguous;
// state [slots, v_heads, key_size, value_size] fp32, contiguous; slots [sequences] int32, all different,
// -1 for padding, of which out is 0.

#include <cstdint>
#include <vector>

#include "optest/delta_head.h"
#include "optest/parallel.h"
#include "optest/slots.h"
#include "optest/tensor.h"
#include "optest/types.h"

#define OPTEST_KERNELS "../../delta_rule_kernels.inl"
#include "optest/each_isa.h"

namespace optest {
namespace {

decltype(&portable::delta_head<float>) kernel_for(const Tensor& v) {
  return by_float_dtype("v", v, [](auto element) {
    return OPTEST_SELECT(delta_head<decltype(element)>);
  });
}

// A [sequences, tokens, heads, size] tensor.
struct Heads {
  Heads(const char* name, const Tensor& tensor, const Tensor& like, int64_t heads, int64_t size)
      : element(static_cast<int64_t>(tensor.element_size())),
        data(static_cast<char*>(tensor.data_ptr())) {
    check_dtype(name, tensor, like.scalar_type());
    check(tensor.dim() == 4 && tensor.size(0) == like.size(0) && tensor.size(1) == like.size(1) &&
              tensor.size(2) == heads && tensor.size(3) == size,
          name, " has shape ", shape_of(tensor), ", expected [", like.size(0), ", ", like.size(1),
          ", ", heads, ", ", size, "]");
    check_dense_last(name, tensor);
    sequence = tensor.stride(0);
    token = tensor.stride(1);
    head = tensor.stride(2);
  }

  char* at(int64_t s, int64_t h) const { return data + (s * sequence + h * head) * element; }

  int64_t element;
  char* data;
  int64_t sequence = 0, token = 0, head = 0;
};

const float* gates(const char* name, const Tensor& tensor, const Tensor& v) {
  check_dtype(name, tensor, ScalarType::Float);
  check(tensor.dim() == 3 && tensor.size(0) == v.size(0) && tensor.size(1) == v.size(1) &&
            tensor.size(2) == v.size(2) && tensor.is_contiguous(),
        name, " has shape ", shape_of(tensor), ", expected a contiguous [", v.size(0), ", ",
        v.size(1), ", ", v.size(2), "]");
  return static_cast<const float*>(tensor.data_ptr());
}

void zero(const Heads& out, int64_t s, int64_t h, int64_t tokens, int64_t size) {
  for (int64_t t = 0; t < tokens; ++t) {
    std::memset(out.at(s, h) + t * out.token * out.element, 0,
                static_cast<size_t>(size * out.element));
  }
}

void gated_delta_rule(Tensor out, Tensor q, Tensor k, Tensor v, Tensor g, Tensor beta, Tensor state,
                      Tensor slots, double scale) {
  const auto kernel = kernel_for(v);
  check(v.dim() == 4 && q.dim() == 4, "v has shape ", shape_of(v), " and q ", shape_of(q),
        ", expected [sequences, tokens, heads, size] of each");
  const int64_t tokens = v.size(1);
  const int64_t v_heads = v.size(2);
  const int64_t value_size = v.size(3);
  const int64_t k_heads = q.size(2);
  const int64_t key_size = q.size(3);
  check(k_heads > 0 ? v_heads % k_heads == 0 : v_heads == 0, "v has ", v_heads,
        " heads, expected a multiple of those of q, ", k_heads);
  const Heads queries("q", q, v, k_heads, key_size);
  const Heads keys("k", k, v, k_heads, key_size);
  const Heads values("v", v, v, v_heads, value_size);
  const Heads results("out", out, v, v_heads, value_size);
  const float* const decay = gates("g", g, v);
  const float* const rate = gates("beta", beta, v);
  check_dtype("state", state, ScalarType::Float);
  check(state.dim() == 4 && state.size(1) == v_heads && state.size(2) == key_size &&
            state.size(3) == value_size && state.is_contiguous(),
        "state has shape ", shape_of(state), ", expected a contiguous [slots, ", v_heads, ", ",
        key_size, ", ", value_size, "]");
  float* const held = static_cast<float*>(state.data_ptr());
  const int32_t* const slot = checked_slots(slots, v.size(0), state.size(0));
  const int64_t group = k_heads > 0 ? v_heads / k_heads : 1;
  parallel_pieces(v.size(0) * v_heads, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> room(static_cast<size_t>(2 * key_size));
    for (int64_t i = begin; i < end; ++i) {
      const int64_t s = i / v_heads;
      const int64_t h = i % v_heads;
      if (slot[s] < 0) {
        zero(results, s, h, tokens, value_size);
        continue;
      }
      const int64_t gate = s * tokens * v_heads + h;
      kernel({queries.at(s, h / group), keys.at(s, h / group), values.at(s, h), results.at(s, h),
              decay + gate, rate + gate,
              held + (slot[s] * v_heads + h) * key_size * value_size, room.data(), queries.token,
              keys.token, values.token, results.token, v_heads, tokens, key_size, value_size,
              static_cast<float>(scale)});
    }
  });
}

}  // namespace
}  // namespace optest

STABLE_TORCH_LIBRARY_FRAGMENT(optest, m) {
  m.def(
      "gated_delta_rule(Tensor(a!) out, Tensor q, Tensor k, Tensor v, Tensor g, Tensor beta, "
      "Tensor(b!) state, Tensor slots, float scale) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(optest, CPU, m) {
  m.impl("gated_delta_rule", TORCH_BOX(&optest::gated_delta_rule));
}
