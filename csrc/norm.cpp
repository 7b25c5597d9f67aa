// RMSNorm over the last dimension, fp32 inside and rounded once:
//
//     rmsnorm             out = x / sqrt(mean(x^2) + eps) * weight
//     fused_add_rmsnorm   residual = residual + x (rounded to its dtype); x = rmsnorm(residual)
//
// x, out and residual are bf16, fp16 or fp32 alike, rows of any stride; weight is any of the three.

#include <vector>

#include "optest/memory.h"
#include "optest/parallel.h"
#include "optest/tensor.h"
#include "optest/types.h"

#define OPTEST_KERNELS "../../norm_kernels.inl"
#include "optest/each_isa.h"
#include "optest/columns.h"

namespace optest {
namespace {

struct Kernels {
  decltype(&columns_of<float>) columns_of;
  decltype(&portable::sum_of_squares<float>) sum_of_squares;
  decltype(&portable::rmsnorm_row<float>) rmsnorm_row;
  decltype(&portable::fused_add_rmsnorm_row<float>) fused_add_rmsnorm_row;
};

template <class T>
Kernels kernels_of() {
  return {columns_of<T>, OPTEST_SELECT(sum_of_squares<T>), OPTEST_SELECT(rmsnorm_row<T>),
          OPTEST_SELECT(fused_add_rmsnorm_row<T>)};
}

Kernels kernels_for(const Tensor& x) {
  return by_float_dtype("x", x, [](auto element) { return kernels_of<decltype(element)>(); });
}

void rmsnorm(Tensor out, Tensor x, Tensor weight, double eps) {
  const Kernels kernels = kernels_for(x);
  check_same_shape("out", out, x);
  check_dtype("out", out, x.scalar_type());
  const Rows from("x", x);
  const Rows to("out", out);
  const std::vector<float> columns = kernels.columns_of("weight", weight, from.length());
  const bool past_caches = goes_past_caches(to.bytes());
  parallel_rows(from.count(), from.row_bytes(), [&](int64_t begin, int64_t end) {
    float squares = kernels.sum_of_squares(from.row(begin), from.length());
    for (int64_t i = begin; i < end; ++i) {
      squares = kernels.rmsnorm_row(from.row(i), from.row(std::min(i + 1, end - 1)), to.row(i),
                                    columns.data(), from.length(), static_cast<float>(eps), squares,
                                    past_caches);
    }
    if (past_caches) finish_stream();
  });
}

void fused_add_rmsnorm(Tensor x, Tensor residual, Tensor weight, double eps) {
  const Kernels kernels = kernels_for(x);
  check_same_shape("residual", residual, x);
  check_dtype("residual", residual, x.scalar_type());
  const Rows in("x", x);
  const Rows sum("residual", residual);
  const std::vector<float> columns = kernels.columns_of("weight", weight, in.length());
  parallel_rows(in.count(), 2 * in.row_bytes(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      kernels.fused_add_rmsnorm_row(in.row(i), sum.row(i), columns.data(), in.length(),
                                    static_cast<float>(eps));
    }
  });
}

}  // namespace
}  // namespace optest

STABLE_TORCH_LIBRARY_FRAGMENT(optest, m) {
  m.def("rmsnorm(Tensor(a!) out, Tensor x, Tensor weight, float eps) -> ()");
  m.def("fused_add_rmsnorm(Tensor(a!) x, Tensor(b!) residual, Tensor weight, float eps) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(optest, CPU, m) {
  m.impl("rmsnorm", TORCH_BOX(&optest::rmsnorm));
  m.impl("fused_add_rmsnorm", TORCH_BOX(&optest::fused_add_rmsnorm));
}
