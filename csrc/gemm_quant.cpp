// Products of 8-bit matrices, int8 (exact int32 sums) or e4m3 (fp32 sums), with fp32 scales:
//
//     gemm_a8w8             out = (x @ w.T) * x_scale[row] * w_scale[column]
//     gemm_a8w8_blockscale  out = sum over blocks of 128 k of
//                                 (x @ w.T of the block) * x_scale[row, block] * w_scale[column / 128, block]
//
// x [m, k], out [m, n] bf16, fp16 or fp32, both with rows of any stride, or with a batch before each.
// w comes packed by pack_w: panels of 16 rows, in each blocks of 64 k as [4 k][16 rows][k of 4].

#include <algorithm>

#include "optest/dot_units.h"
#include "optest/gemm_driver.h"
#include "optest/types.h"

#define OPTEST_KERNELS "../../gemm_quant_kernels.inl"
#include "optest/each_isa.h"

#include "optest/gemm_quant.h"

namespace optest {
namespace {

Gemm checked(const Tensor& out, const Tensor& x, const Tensor& w, int64_t dims) {
  check(x.dim() == dims && out.dim() == dims, "x has shape ", shape_of(x), " and out ",
        shape_of(out), ", expected ", dims, " dimensions each");
  Gemm gemm{kernels_for(out, check_int8(x, w)), Matrices("out", out), Matrices("x", x),
            static_cast<const uint8_t*>(w.data_ptr()), nullptr, nullptr, nullptr, false};
  check(gemm.out.batch == gemm.x.batch && gemm.out.rows == gemm.x.rows, "out has shape ",
        shape_of(out), ", expected the batch and the rows of x, ", shape_of(x));
  check(w.is_contiguous() && w.dim() == dims && (dims == 2 || w.size(0) == gemm.x.batch) &&
            w.size(dims - 2) == gemm.panels() && w.size(dims - 1) == gemm.panel_bytes(),
        "w has shape ", shape_of(w), ", expected [", dims == 2 ? "" : "batch, ", gemm.panels(),
        ", ", gemm.panel_bytes(), "], as pack_w makes it of [", gemm.out.columns, ", ",
        gemm.x.columns, "]");
  return gemm;
}

void gemm_by_rows(const Tensor& out, const Tensor& x, const Tensor& w, const Tensor& x_scale,
                  const Tensor& w_scale, int64_t dims) {
  Gemm gemm = checked(out, x, w, dims);
  const int64_t batch = gemm.out.batch;
  gemm.x_scale = scales_of("x_scale", x_scale, batch * gemm.out.rows, "one a row of x");
  gemm.w_scale = scales_of("w_scale", w_scale, batch * gemm.out.columns, "one a row of w");
  multiply(gemm);
}

void gemm_a8w8(Tensor out, Tensor x, Tensor w, Tensor x_scale, Tensor w_scale) {
  gemm_by_rows(out, x, w, x_scale, w_scale, 2);
}

void batched_gemm_a8w8(Tensor out, Tensor x, Tensor w, Tensor x_scale, Tensor w_scale) {
  gemm_by_rows(out, x, w, x_scale, w_scale, 3);
}

void gemm_a8w8_blockscale(Tensor out, Tensor x, Tensor w, Tensor x_scale, Tensor w_scale) {
  Gemm gemm = checked(out, x, w, 2);
  gemm.by_blocks = true;
  const int64_t across = gemm.scale_blocks();
  gemm.x_scale =
      scales_of("x_scale", x_scale, gemm.out.rows * across, "one a row and 128 k of x");
  gemm.w_scale = scales_of("w_scale", w_scale, divided(gemm.out.columns, kScaleBlock) * across,
                           "one for 128 rows by 128 k of w");
  multiply(gemm);
}

void pack_w(Tensor packed, Tensor w) {
  check(w.dim() == 2 || w.dim() == 3, "w has shape ", shape_of(w), ", expected [n, k] or a batch");
  check_int8(w, packed);
  const Matrices from("w", w);
  pack_panels<uint8_t>(packed, from, OPTEST_SELECT(pack_panel));
}

}  // namespace
}  // namespace optest

STABLE_TORCH_LIBRARY_FRAGMENT(optest, m) {
  m.def("pack_w(Tensor(a!) packed, Tensor w) -> ()");
  m.def("gemm_a8w8(Tensor(a!) out, Tensor x, Tensor w, Tensor x_scale, Tensor w_scale) -> ()");
  m.def(
      "batched_gemm_a8w8(Tensor(a!) out, Tensor x, Tensor w, Tensor x_scale, Tensor w_scale) -> ()");
  m.def(
      "gemm_a8w8_blockscale(Tensor(a!) out, Tensor x, Tensor w, Tensor x_scale, Tensor w_scale) -> "
      "()");
  m.def("limit_dot_unit(int unit) -> int");
}

STABLE_TORCH_LIBRARY_IMPL(optest, CPU, m) {
  m.impl("pack_w", TORCH_BOX(&optest::pack_w));
  m.impl("gemm_a8w8", TORCH_BOX(&optest::gemm_a8w8));
  m.impl("batched_gemm_a8w8", TORCH_BOX(&optest::batched_gemm_a8w8));
  m.impl("gemm_a8w8_blockscale", TORCH_BOX(&optest::gemm_a8w8_blockscale));
}

// No tensor tells the dispatcher a device here.
STABLE_TORCH_LIBRARY_IMPL(optest, CompositeExplicitAutograd, m) {
  m.impl("limit_dot_unit", TORCH_BOX(&optest::limit_dot_unit));
}
