// Per-token quantisation to fp8 (e4m3fn, e4m3fnuz) or int8, to nearest, of what is made on the way in
// fp32:
//
//     fused_add_rmsnorm_quant   residual = residual + x (rounded to its dtype); of rmsnorm(residual)
//     smoothquant               of x * smooth_scale, a number for each column
//
// with scale = max |row| / largest code, 1 where that is 0, and a NaN spoiling its row. x and residual
// are bf16, fp16 or fp32 alike, rows of any stride; weight and smooth_scale are any of the three.

#include <algorithm>
#include <vector>

#include "optest/memory.h"
#include "optest/parallel.h"
#include "optest/tensor.h"
#include "optest/types.h"

#define OPTEST_KERNELS "../../norm_quant_kernels.inl"
#include "optest/each_isa.h"
#include "optest/columns.h"

namespace optest {
namespace {

struct Kernels {
  decltype(&columns_of<float>) columns_of;
  decltype(&portable::normed_row<float, int8_t>) normed_row;
  decltype(&portable::smooth_scale<float, int8_t>) smooth_scale;
  decltype(&portable::smooth_row<float, int8_t>) smooth_row;
};

template <class T, class Q>
Kernels kernels_of() {
  return {columns_of<T>, OPTEST_SELECT(normed_row<T, Q>), OPTEST_SELECT(smooth_scale<T, Q>),
          OPTEST_SELECT(smooth_row<T, Q>)};
}

Kernels kernels_for(const Tensor& out, const Tensor& x) {
  check_same_shape("out", out, x);
  return by_float_dtype("x", x, [&](auto element) {
    return by_quant_dtype("out", out, [](auto quantised) {
      return kernels_of<decltype(element), decltype(quantised)>();
    });
  });
}

float* scales_of(const Tensor& scales, int64_t rows) {
  check_dtype("scales", scales, ScalarType::Float);
  check(scales.numel() == rows, "scales has shape ", shape_of(scales), ", expected ", rows,
        " elements: one for each row of x");
  check(scales.is_contiguous(), "scales has strides, expected a contiguous tensor");
  return static_cast<float*>(scales.data_ptr());
}

void fused_add_rmsnorm_quant(Tensor out, Tensor scales, Tensor x, Tensor residual, Tensor weight,
                             double eps) {
  const Kernels kernels = kernels_for(out, x);
  check_same_shape("residual", residual, x);
  check_dtype("residual", residual, x.scalar_type());
  const Rows in("x", x);
  const Rows sum("residual", residual);
  const Rows to("out", out);
  float* const found = scales_of(scales, in.count());
  const std::vector<float> weights = kernels.columns_of("weight", weight, in.length());
  if (in.length() == 0) {
    std::fill(found, found + in.count(), 1.0f);
    return;
  }
  const bool past_caches = goes_past_caches(to.bytes());
  parallel_rows(in.count(), 2 * in.row_bytes(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      found[i] = kernels.normed_row(in.row(i), sum.row(i), to.row(i), weights.data(), in.length(),
                                    static_cast<float>(eps), past_caches);
    }
    if (past_caches) finish_stream();
  });
}

void smoothquant(Tensor out, Tensor scales, Tensor x, Tensor smooth_scale) {
  const Kernels kernels = kernels_for(out, x);
  const Rows from("x", x);
  const Rows to("out", out);
  float* const found = scales_of(scales, from.count());
  const std::vector<float> columns =
      kernels.columns_of("smooth_scale", smooth_scale, from.length());
  const bool past_caches = goes_past_caches(to.bytes());
  parallel_rows(from.count(), from.row_bytes(), [&](int64_t begin, int64_t end) {
    float scale = kernels.smooth_scale(from.row(begin), columns.data(), from.length());
    for (int64_t i = begin; i < end; ++i) {
      found[i] = scale;
      scale = kernels.smooth_row(from.row(i), from.row(std::min(i + 1, end - 1)), to.row(i),
                                 columns.data(), from.length(), scale, past_caches);
    }
    if (past_caches) finish_stream();
  });
}

}  // namespace
}  // namespace optest

STABLE_TORCH_LIBRARY_FRAGMENT(optest, m) {
  m.def(
      "fused_add_rmsnorm_quant(Tensor(a!) out, Tensor(b!) scales, Tensor x, Tensor(c!) residual, "
      "Tensor weight, float eps) -> ()");
  m.def(
      "smoothquant(Tensor(a!) out, Tensor(b!) scales, Tensor x, Tensor smooth_scale) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(optest, CPU, m) {
  m.impl("fused_add_rmsnorm_quant", TORCH_BOX(&optest::fused_add_rmsnorm_quant));
  m.impl("smoothquant", TORCH_BOX(&optest::smoothquant));
}
