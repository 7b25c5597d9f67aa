// The kernels of gemm_quant_kernels.inl that this CPU runs: included after each_isa.h has compiled that
// file, by one source file each.
#pragma once

#include "optest/dot_units.h"
#include "optest/gemm_driver.h"
#include "optest/types.h"

namespace optest {
namespace {

template <class Out>
GemmKernels int8_kernels() {
  return {portable::PairsOfInt8::kBlock,
          kBlockBytes,
          0,
          OPTEST_SELECT(pack_int8),
          OPTEST_SELECT(dot_int8),
          OPTEST_SELECT(add_scaled<int32_t>),
          OPTEST_SELECT(finish<int32_t, Out>),
          OPTEST_SELECT(finish<float, Out>)};
}

template <class Out>
GemmKernels fp8_kernels() {
  return {portable::Fp8AsFp32::kBlock,
          kBlockBytes,
          portable::Fp8AsFp32::kWideBlock,
          OPTEST_SELECT(pack_fp8),
          OPTEST_SELECT(dot_fp8),
          OPTEST_SELECT(add_scaled<float>),
          OPTEST_SELECT(finish<float, Out>),
          OPTEST_SELECT(finish<float, Out>)};
}

// What AVX-512 alone does, done by the unit that this CPU has beside it.
void take_unit(GemmKernels& kernels, bool is_int8) {
#if defined(OPTEST_X86)
  const DotUnit unit = current_dot_unit();
  const bool tiles = unit == DotUnit::amx;
  if (tiles && is_int8) {
    kernels.x_block = avx512::AmxInt8::kBlock;
    kernels.pack_x = &avx512::pack_x<avx512::AmxInt8>;
    kernels.dot = &avx512::amx_int8_dot;
  } else if (unit >= DotUnit::vnni && is_int8) {
    kernels.x_block = avx512::VnniInt8::kBlock;
    kernels.pack_x = &avx512::pack_x<avx512::VnniInt8>;
    kernels.dot = &avx512::vnni_dot;
    kernels.tile_in_place = true;
  } else if (unit >= DotUnit::bf16) {
    kernels.x_block = avx512::Fp8AsBf16::kBlock;
    kernels.wide_block = avx512::kBf16Block;
    kernels.pack_x = &avx512::pack_x<avx512::Fp8AsBf16>;
    kernels.dot = tiles ? &avx512::amx_fp8_dot : &avx512::pair_fp8_dot;
    kernels.tile_in_place = !tiles;
  }
  if (tiles) {
    kernels.open = &avx512::open_tiles;
    kernels.close = &avx512::close_tiles;
  }
#else
  (void)kernels, (void)is_int8;
#endif
}

template <class Out>
GemmKernels kernels_of(bool is_int8) {
  GemmKernels kernels = is_int8 ? int8_kernels<Out>() : fp8_kernels<Out>();
  take_unit(kernels, is_int8);
  return kernels;
}

GemmKernels kernels_for(const Tensor& out, bool is_int8) {
  return by_float_dtype("out", out, [&](auto element) {
    return kernels_of<decltype(element)>(is_int8);
  });
}

// Whether x and w are int8; they are e4m3 otherwise.
bool check_int8(const Tensor& x, const Tensor& w) {
  const ScalarType dtype = x.scalar_type();
  check(dtype == ScalarType::Char || dtype == ScalarType::Float8_e4m3fn, "x has dtype ",
        torch::headeronly::toString(dtype), ", expected Char or Float8_e4m3fn");
  check_dtype("w", w, dtype);
  return dtype == ScalarType::Char;
}

const float* scales_of(const char* name, const Tensor& scales, int64_t count, const char* each) {
  check_dtype(name, scales, ScalarType::Float);
  check(scales.numel() == count && scales.is_contiguous(), name, " has shape ", shape_of(scales),
        ", expected ", count, " contiguous elements: ", each);
  return static_cast<const float*>(scales.data_ptr());
}

}  // namespace
}  // namespace optest
