// One pass over a reference and a candidate: a row of counts, sums and maxima for each block.

#include <algorithm>
#include <optional>

#include "optest/compare_row.h"
#include "optest/isa.h"
#include "optest/parallel.h"
#include "optest/tensor.h"
#include "optest/types.h"
#include "optest/walk.h"

#define OPTEST_KERNELS "../../compare_kernels.inl"
#include "optest/each_isa.h"

namespace optest {
namespace {

using Kernel = void (*)(const CompareRun&, const CompareBounds&, CompareRow*);

Kernel kernel_for(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Float:
      return OPTEST_SELECT(compare_reals<float>);
    case ScalarType::BFloat16:
      return OPTEST_SELECT(compare_reals<Bf16>);
    case ScalarType::Half:
      return OPTEST_SELECT(compare_reals<Fp16>);
    case ScalarType::Double:
      return OPTEST_SELECT(compare_reals<double>);
    case ScalarType::Char:
      return OPTEST_SELECT(compare_reals<int8_t>);
    case ScalarType::Byte:
    case ScalarType::Bool:
      return OPTEST_SELECT(compare_reals<uint8_t>);
    case ScalarType::Short:
      return OPTEST_SELECT(compare_integers<int16_t>);
    case ScalarType::UInt16:
      return OPTEST_SELECT(compare_integers<uint16_t>);
    case ScalarType::Int:
      return OPTEST_SELECT(compare_integers<int32_t>);
    case ScalarType::UInt32:
      return OPTEST_SELECT(compare_integers<uint32_t>);
    case ScalarType::Long:
      return OPTEST_SELECT(compare_integers<int64_t>);
    case ScalarType::UInt64:
      return OPTEST_SELECT(compare_integers<uint64_t>);
    default:
      fail("reference has dtype ", torch::headeronly::toString(dtype),
           ", which compare_scan does not read");
  }
}

// Null where there are none: then bytes are numbers.
const float* checked_codes(const std::optional<Tensor>& codes, const Tensor& reference) {
  if (!codes.has_value()) return nullptr;
  check_dtype("reference", reference, ScalarType::Byte);
  check_dtype("codes", *codes, ScalarType::Float);
  check(codes->is_contiguous() && codes->numel() == 256, "codes has shape ", shape_of(*codes),
        ", expected contiguous [256]");
  return static_cast<const float*>(codes->data_ptr());
}

// `codes` gives the value of each byte where those are codes (fp8, e8m0).
void compare_scan(Tensor reference, Tensor candidate, std::optional<Tensor> codes, double rtol,
                  double atol, bool equal_nan, double gross_floor, int64_t block, Tensor rows) {
  check_same_shape("candidate", candidate, reference);
  check_dtype("candidate", candidate, reference.scalar_type());
  check_dtype("rows", rows, ScalarType::Double);
  check(block > 0, "block is ", block, ", expected at least 1");
  const int64_t count = reference.numel();
  const int64_t blocks = (count + block - 1) / block;
  check(rows.is_contiguous() && rows.dim() == 2 && rows.size(0) == blocks &&
            rows.size(1) == kColumns,
        "rows has shape ", shape_of(rows), ", expected contiguous [", blocks, ", ", kColumns, "]");
  const float* const values = checked_codes(codes, reference);
  const Kernel kernel =
      values ? OPTEST_SELECT(compare_reals<Code8>) : kernel_for(reference.scalar_type());
  const CompareBounds bounds{rtol, atol, equal_nan, gross_floor};
  const Walk walk(reference, candidate);
  auto* const out = static_cast<CompareRow*>(rows.data_ptr());
  parallel_pieces(blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      CompareRow row;
      walk.runs(i * block, std::min(count, (i + 1) * block), [&](const PairRun& run) {
        kernel(CompareRun{run, values}, bounds, &row);
      });
      out[i] = row;
    }
  });
}

// Reads every byte of both, block by block in step: what a pass over a pair cannot be faster than.
void compare_read(Tensor a, Tensor b) {
  check(a.is_contiguous() && b.is_contiguous() && a.numel() == b.numel(),
        "a and b have shapes ", shape_of(a), " and ", shape_of(b),
        ", expected contiguous tensors of one size");
  constexpr int64_t block = 256 * 1024;
  const int64_t bytes = a.numel() * static_cast<int64_t>(a.element_size());
  const auto* const pa = static_cast<const char*>(a.data_ptr());
  const auto* const pb = static_cast<const char*>(b.data_ptr());
  const auto read = OPTEST_SELECT(read_both);
  parallel_pieces(bytes, block, [&](int64_t begin, int64_t end) {
    const uint32_t seen = read(pa + begin, pb + begin, end - begin);
    asm volatile("" : : "r"(seen));
  });
}

}  // namespace
}  // namespace optest

STABLE_TORCH_LIBRARY_FRAGMENT(optest, m) {
  m.def(
      "compare_scan(Tensor reference, Tensor candidate, Tensor? codes, float rtol, float atol, "
      "bool equal_nan, float gross_floor, int block, Tensor(a!) rows) -> ()");
  m.def("compare_read(Tensor a, Tensor b) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(optest, CPU, m) {
  m.impl("compare_scan", TORCH_BOX(&optest::compare_scan));
  m.impl("compare_read", TORCH_BOX(&optest::compare_read));
}
