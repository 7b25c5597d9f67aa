// Microscaling (OCP MX v1.0): rows of bf16, fp16 or fp32 to blocks of 32 fp4 (e2m1) numbers,
//
//     scale = 2^(floor(log2(max |x|)) - 2), at least 2^-127; NaN where x is no finite number
//     code  = x / scale, to nearest with ties to the even code, 6 at most
//
// two codes a byte, the first in its low half. Codes and scales (e8m0) are bytes here. And the product of
// two such operands, gemm_a4w4, with sums in fp32: out = x @ w.T of what they stand for.

#include <algorithm>

#include "optest/dot_units.h"
#include "optest/gemm_driver.h"
#include "optest/parallel.h"
#include "optest/tensor.h"
#include "optest/types.h"

#define OPTEST_KERNELS "../../mx_kernels.inl"
#include "optest/each_isa.h"

namespace optest {
namespace {

constexpr int64_t kBlock = 32;

decltype(&portable::quantise_mx_row<float>) row_kernel(const Tensor& x) {
  return by_float_dtype("x", x, [](auto element) {
    return OPTEST_SELECT(quantise_mx_row<decltype(element)>);
  });
}

void check_rows_of(const char* name, const Tensor& tensor, int64_t rows, int64_t length) {
  check_dtype(name, tensor, ScalarType::Byte);
  check(tensor.dim() == 2 && tensor.size(0) == rows && tensor.size(1) == length, name,
        " has shape ", shape_of(tensor), ", expected [", rows, ", ", length, "]");
}

void quant_mxfp4(Tensor out, Tensor x, Tensor scales) {
  const auto kernel = row_kernel(x);
  check(x.dim() == 2, "x has shape ", shape_of(x), ", expected [m, k]");
  const int64_t k = x.size(1);
  check_rows_of("out", out, x.size(0), (k + 1) / 2);
  check_rows_of("scales", scales, x.size(0), (k + kBlock - 1) / kBlock);
  const Rows from("x", x);
  const Rows to("out", out);
  const Rows by("scales", scales);
  parallel_rows(from.count(), from.row_bytes(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      kernel(from.row(i), reinterpret_cast<uint8_t*>(to.row(i)),
             reinterpret_cast<uint8_t*>(by.row(i)), k);
    }
  });
}

// ---- gemm_a4w4 ------------------------------------------------------------------------------------

template <class Out>
GemmKernels gemm_kernels_of() {
  GemmKernels kernels{portable::Mxfp4AsFp32::kBlock,
                      portable::kMxPackedBlock,
                      portable::Mxfp4AsFp32::kWideBlock,
                      OPTEST_SELECT(pack_mx_fp32),
                      OPTEST_SELECT(dot_mx),
                      nullptr,
                      OPTEST_SELECT(finish_mx<Out>),
                      nullptr};
#if defined(OPTEST_X86)
  const bool tiles = current_dot_unit() == DotUnit::amx;
  if (current_dot_unit() >= DotUnit::bf16) {
    kernels.x_block = avx512::kBf16Block;
    kernels.wide_block = avx512::kBf16Block;
    kernels.pack_x = &avx512::pack_mx_bf16;
    kernels.dot = tiles ? &avx512::amx_mx_dot : &avx512::pair_mx_dot;
    kernels.tile_in_place = !tiles;
  }
  if (tiles) {
    kernels.open = &avx512::open_tiles;
    kernels.close = &avx512::close_tiles;
  }
#endif
  return kernels;
}

GemmKernels gemm_kernels_for(const Tensor& out) {
  return by_float_dtype("out", out, [](auto element) {
    return gemm_kernels_of<decltype(element)>();
  });
}

int64_t scales_of(int64_t bytes) { return divided(bytes, kBlock / 2); }

// Codes of x and their scales, which are few beside the weights', as fp32 rows of whole blocks.
std::unique_ptr<char[]> dequantised(const Tensor& x, const Tensor& x_scale, int64_t room) {
  const Matrices codes("x", x);
  const Matrices scales("x_scale", x_scale);
  auto made = room_of(codes.rows * room * 4);
  const auto dequantise = OPTEST_SELECT(dequantise_mx_row);
  parallel_rows(codes.rows, room * 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      dequantise(reinterpret_cast<const uint8_t*>(codes.row(0, i)),
                 reinterpret_cast<const uint8_t*>(scales.row(0, i)), codes.columns, room,
                 reinterpret_cast<float*>(made.get()) + i * room);
    }
  });
  return made;
}

void gemm_a4w4(Tensor out, Tensor x, Tensor w, Tensor x_scale, Tensor w_scale) {
  check(x.dim() == 2 && out.dim() == 2, "x has shape ", shape_of(x), " and out ", shape_of(out),
        ", expected 2 dimensions each");
  const int64_t m = x.size(0);
  const int64_t bytes = x.size(1);
  const int64_t blocks = divided(bytes, kDepth / 2);
  const int64_t panels = divided(out.size(1), kTile);
  check_rows_of("x", x, m, bytes);
  check_rows_of("x_scale", x_scale, m, scales_of(bytes));
  check_rows_of("w", w, panels, blocks * portable::kMxPackedBlock);
  check_rows_of("w_scale", w_scale, panels, blocks * kScalesPerBlock);
  check(out.size(0) == m, "out has shape ", shape_of(out), ", expected ", m, " rows, as x has");
  check(w.is_contiguous() && w_scale.is_contiguous(), "w or w_scale has strides, expected both "
        "contiguous, as pack_mxfp4_w makes them");
  const int64_t room = blocks * kDepth;
  const auto rows = dequantised(x, x_scale, room);
  Gemm gemm{gemm_kernels_for(out), Matrices("out", out), Matrices("x", x),
            static_cast<const uint8_t*>(w.data_ptr()), nullptr, nullptr,
            static_cast<const uint8_t*>(w_scale.data_ptr()), false};
  gemm.x.columns = room;
  gemm.x.element = 4;
  gemm.x.row_bytes = room * 4;
  gemm.x.data = rows.get();
  multiply(gemm);
}

void pack_mxfp4_w(Tensor packed, Tensor packed_scale, Tensor w, Tensor w_scale) {
  check(w.dim() == 2, "w has shape ", shape_of(w), ", expected [n, k / 2]");
  const int64_t bytes = w.size(1);
  const int64_t blocks = divided(bytes, kDepth / 2);
  const int64_t panels = divided(w.size(0), kTile);
  check_rows_of("w", w, w.size(0), bytes);
  check_rows_of("w_scale", w_scale, w.size(0), scales_of(bytes));
  const int64_t panel_bytes = blocks * portable::kMxPackedBlock;
  check_rows_of("packed", packed, panels, panel_bytes);
  check_rows_of("packed_scale", packed_scale, panels, blocks * kScalesPerBlock);
  check(packed.is_contiguous() && packed_scale.is_contiguous(),
        "packed or packed_scale has strides, expected both contiguous");
  const Matrices codes("w", w);
  const Matrices scales("w_scale", w_scale);
  auto* const to = static_cast<uint8_t*>(packed.data_ptr());
  auto* const powers = static_cast<uint8_t*>(packed_scale.data_ptr());
  std::memset(to, 0, static_cast<size_t>(packed.numel()));
  std::memset(powers, 0, static_cast<size_t>(packed_scale.numel()));
  const auto pack = OPTEST_SELECT(pack_mx_panel);
  parallel_rows(panels, panel_bytes, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i * kTile;
      pack(reinterpret_cast<const uint8_t*>(codes.row(0, row)), codes.row_bytes,
           reinterpret_cast<const uint8_t*>(scales.row(0, row)), scales.row_bytes,
           std::min(kTile, codes.rows - row), bytes, to + i * panel_bytes,
           powers + i * blocks * kScalesPerBlock);
    }
  });
}

}  // namespace
}  // namespace optest

STABLE_TORCH_LIBRARY_FRAGMENT(optest, m) {
  m.def("quant_mxfp4(Tensor(a!) out, Tensor x, Tensor(b!) scales) -> ()");
  m.def("gemm_a4w4(Tensor(a!) out, Tensor x, Tensor w, Tensor x_scale, Tensor w_scale) -> ()");
  m.def(
      "pack_mxfp4_w(Tensor(a!) packed, Tensor(b!) packed_scale, Tensor w, Tensor w_scale) -> ()");
  m.def("limit_mx_dot_unit(int unit) -> int");
}

STABLE_TORCH_LIBRARY_IMPL(optest, CPU, m) {
  m.impl("quant_mxfp4", TORCH_BOX(&optest::quant_mxfp4));
  m.impl("gemm_a4w4", TORCH_BOX(&optest::gemm_a4w4));
  m.impl("pack_mxfp4_w", TORCH_BOX(&optest::pack_mxfp4_w));
}

// No tensor tells the dispatcher a device here.
STABLE_TORCH_LIBRARY_IMPL(optest, CompositeExplicitAutograd, m) {
  m.impl("limit_mx_dot_unit", TORCH_BOX(&optest::limit_dot_unit));
}
