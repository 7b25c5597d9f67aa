// Columns of the k largest of each row, of which the first lengths[row] elements count. Of equal ones
// the lower columns are taken; NaN is above all numbers. The order of a row's columns means nothing. A
// row shorter than k has -1 behind its columns.
//
// scores [m, n] bf16, fp16 or fp32, rows of any stride; lengths [m] int32, 0 to n; ids [m, k] int32.

#include "optest/parallel.h"
#include "optest/picked_room.h"
#include "optest/tensor.h"
#include "optest/types.h"

#define OPTEST_KERNELS "../../topk_kernels.inl"
#include "optest/each_isa.h"

namespace optest {
namespace {

using Kernel = decltype(&portable::topk_row<float>);

Kernel kernel_for(const Tensor& scores) {
  return by_float_dtype("scores", scores, [](auto element) {
    return OPTEST_SELECT(topk_row<decltype(element)>);
  });
}

const int32_t* checked_lengths(const Tensor& lengths, int64_t m, int64_t n) {
  check_dtype("lengths", lengths, ScalarType::Int);
  check(lengths.dim() == 1 && lengths.size(0) == m && lengths.is_contiguous(),
        "lengths has shape ", shape_of(lengths), ", expected a contiguous [", m, "]");
  const int32_t* const each = static_cast<const int32_t*>(lengths.data_ptr());
  for (int64_t i = 0; i < m; ++i) {
    check(each[i] >= 0 && each[i] <= n, "lengths[", i, "] is ", each[i], ", expected 0 to ", n,
          ", the columns of scores");
  }
  return each;
}

void topk_per_row(Tensor ids, Tensor scores, Tensor lengths) {
  const Kernel kernel = kernel_for(scores);
  check(scores.dim() == 2, "scores has shape ", shape_of(scores), ", expected [m, n]");
  const int64_t m = scores.size(0);
  check_dtype("ids", ids, ScalarType::Int);
  check(ids.dim() == 2 && ids.size(0) == m && ids.is_contiguous(), "ids has shape ", shape_of(ids),
        ", expected a contiguous [", m, ", k]");
  const Rows rows("scores", scores);
  const int32_t* const length = checked_lengths(lengths, m, rows.length());
  const int64_t k = ids.size(1);
  if (k == 0) return;
  int32_t* const out = static_cast<int32_t*>(ids.data_ptr());
  parallel_rows(m, rows.row_bytes() + 8 * k, [&](int64_t begin, int64_t end) {
    PickedRoom room;
    for (int64_t i = begin; i < end; ++i) {
      kernel(rows.row(i), length[i], k, &room, out + i * k);
    }
  });
}

}  // namespace
}  // namespace optest

STABLE_TORCH_LIBRARY_FRAGMENT(optest, m) {
  m.def("topk_per_row(Tensor(a!) ids, Tensor scores, Tensor lengths) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(optest, CPU, m) {
  m.impl("topk_per_row", TORCH_BOX(&optest::topk_per_row));
}
