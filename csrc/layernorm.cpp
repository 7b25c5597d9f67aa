// Layer normalisation over the last dimension, fp32 inside and rounded once:
//
//     out = (x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps) * weight + bias
//
// x and out are bf16, fp16 or fp32 alike, rows of any stride; weight and bias are any of the three.

#include <algorithm>
#include <vector>

#include "optest/memory.h"
#include "optest/parallel.h"
#include "optest/tensor.h"
#include "optest/types.h"

#define OPTEST_KERNELS "../../layernorm_kernels.inl"
#include "optest/each_isa.h"
#include "optest/columns.h"

namespace optest {
namespace {

struct Kernels {
  decltype(&columns_of<float>) columns_of;
  decltype(&portable::row_sum<float>) row_sum;
  decltype(&portable::layernorm_row<float>) layernorm_row;
};

template <class T>
Kernels kernels_of() {
  return {columns_of<T>, OPTEST_SELECT(row_sum<T>), OPTEST_SELECT(layernorm_row<T>)};
}

Kernels kernels_for(const Tensor& x) {
  return by_float_dtype("x", x, [](auto element) { return kernels_of<decltype(element)>(); });
}

void layernorm(Tensor out, Tensor x, Tensor weight, Tensor bias, double eps) {
  const Kernels kernels = kernels_for(x);
  check_same_shape("out", out, x);
  check_dtype("out", out, x.scalar_type());
  const Rows from("x", x);
  const Rows to("out", out);
  const std::vector<float> weights = kernels.columns_of("weight", weight, from.length());
  const std::vector<float> biases = kernels.columns_of("bias", bias, from.length());
  const bool past_caches = goes_past_caches(to.bytes());
  parallel_rows(from.count(), from.row_bytes(), [&](int64_t begin, int64_t end) {
    float sum = kernels.row_sum(from.row(begin), from.length());
    for (int64_t i = begin; i < end; ++i) {
      sum = kernels.layernorm_row(from.row(i), from.row(std::min(i + 1, end - 1)), to.row(i),
                                  weights.data(), biases.data(), from.length(),
                                  static_cast<float>(eps), sum, past_caches);
    }
    if (past_caches) finish_stream();
  });
}

}  // namespace
}  // namespace optest

STABLE_TORCH_LIBRARY_FRAGMENT(optest, m) {
  m.def("layernorm(Tensor(a!) out, Tensor x, Tensor weight, Tensor bias, float eps) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(optest, CPU, m) {
  m.impl("layernorm", TORCH_BOX(&optest::layernorm));
}
