// Draws the next token of each row by given uniform numbers. Tokens are ranked by their logits, of equal
// ones the lower token first; three limits each keep a beginning of the ranking:
//
//     top_k   the first top_k tokens; 0, or more than there are, keeps all
//     top_p   of these, renormalised, the fewest whose probabilities sum to top_p; 1 keeps all
//     min_p   those of at least min_p times the largest probability; 0 keeps all
//
// The token drawn is the first, in the order of the vocabulary, at which the sum of what is kept exceeds
// uniform times all of it; -1 where there is no token. logits [m, n] bf16, fp16 or fp32 without NaN, rows
// of any stride; top_k [m] int32, top_p, min_p, uniform [m] fp32, tokens [m] int32.

#include "optest/parallel.h"
#include "optest/sampling_row.h"
#include "optest/tensor.h"
#include "optest/types.h"

#define OPTEST_KERNELS "../../sampling_kernels.inl"
#include "optest/each_isa.h"

namespace optest {
namespace {

using Kernel = decltype(&portable::sample_row<float>);

Kernel kernel_for(const Tensor& logits) {
  return by_float_dtype("logits", logits, [](auto element) {
    return OPTEST_SELECT(sample_row<decltype(element)>);
  });
}

template <class T>
T* values_of(const char* name, const Tensor& tensor, ScalarType dtype, int64_t m) {
  check_dtype(name, tensor, dtype);
  check(tensor.dim() == 1 && tensor.size(0) == m && tensor.is_contiguous(), name, " has shape ",
        shape_of(tensor), ", expected a contiguous [", m, "]");
  return static_cast<T*>(tensor.data_ptr());
}

void sampling(Tensor tokens, Tensor logits, Tensor top_k, Tensor top_p, Tensor min_p,
              Tensor uniform) {
  const Kernel kernel = kernel_for(logits);
  check(logits.dim() == 2, "logits has shape ", shape_of(logits), ", expected [m, n]");
  const int64_t m = logits.size(0);
  int32_t* const out = values_of<int32_t>("tokens", tokens, ScalarType::Int, m);
  const int32_t* const ks = values_of<int32_t>("top_k", top_k, ScalarType::Int, m);
  const float* const top_ps = values_of<float>("top_p", top_p, ScalarType::Float, m);
  const float* const min_ps = values_of<float>("min_p", min_p, ScalarType::Float, m);
  const float* const uniforms = values_of<float>("uniform", uniform, ScalarType::Float, m);
  const Rows rows("logits", logits);
  const int64_t n = rows.length();
  parallel_rows(m, rows.row_bytes(), [&](int64_t begin, int64_t end) {
    Scratch scratch;
    for (int64_t i = begin; i < end; ++i) {
      const Limits limits{ks[i], top_ps[i], min_ps[i], uniforms[i]};
      out[i] = n == 0 ? -1 : static_cast<int32_t>(kernel(rows.row(i), n, limits, &scratch));
    }
  });
}

}  // namespace
}  // namespace optest

STABLE_TORCH_LIBRARY_FRAGMENT(optest, m) {
  m.def(
      "sampling(Tensor(a!) tokens, Tensor logits, Tensor top_k, Tensor top_p, Tensor min_p, "
      "Tensor uniform) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(optest, CPU, m) {
  m.impl("sampling", TORCH_BOX(&optest::sampling));
}
