// Quantisation of bf16, fp16 or fp32 tensors to fp8 (e4m3fn, e4m3fnuz) or int8, to nearest with ties to
// even, saturating at the largest finite value (448, 240, 127):
//
//     scale = max |x| / largest, 1 where that is 0        fp32
//     out = round(x / scale)
//
// with one scale for the tensor (given or found), for each row, or for each run of `group` elements of
// a row. A NaN makes the scale it takes part in NaN. Rows may have any stride.

#include <atomic>
#include <string>
#include <vector>

#include "optest/memory.h"
#include "optest/parallel.h"
#include "optest/tensor.h"
#include "optest/types.h"

#define OPTEST_KERNELS "../../quant_kernels.inl"
#include "optest/each_isa.h"

namespace optest {
namespace {

struct Kernels {
  decltype(&portable::largest_bits_of<float>) largest_bits_of;
  decltype(&portable::scale_for<int8_t>) scale_for;
  decltype(&portable::quantise_by<float, int8_t>) quantise_by;
  decltype(&portable::find_scales<float, int8_t>) find_scales;
  decltype(&portable::quantise_row<float, int8_t>) quantise_row;
};

template <class T, class Q>
Kernels kernels_of() {
  return {OPTEST_SELECT(largest_bits_of<T>), OPTEST_SELECT(scale_for<Q>),
          OPTEST_SELECT(quantise_by<T, Q>), OPTEST_SELECT(find_scales<T, Q>),
          OPTEST_SELECT(quantise_row<T, Q>)};
}

Kernels kernels_for(const Tensor& out, const Tensor& x) {
  check_same_shape("out", out, x);
  return by_float_dtype("x", x, [&](auto element) {
    return by_quant_dtype("out", out, [](auto quantised) {
      return kernels_of<decltype(element), decltype(quantised)>();
    });
  });
}

float* scales_of(const char* name, const Tensor& scales, int64_t count, const char* one_for) {
  check_dtype(name, scales, ScalarType::Float);
  check(scales.numel() == count, name, " has shape ", shape_of(scales), ", expected ", count,
        " element", count == 1 ? "" : "s", ": one for ", one_for);
  check(scales.is_contiguous(), name, " has strides, expected a contiguous tensor");
  return static_cast<float*>(scales.data_ptr());
}

// x and out as rows; as a single one where both are dense, since rows mean nothing to one scale.
struct Pair {
  Pair(const Tensor& x, const Tensor& out)
      : dense(x.is_contiguous() && out.is_contiguous()),
        from(dense ? Rows::whole(x) : Rows("x", x)),
        to(dense ? Rows::whole(out) : Rows("out", out)) {}

  bool dense;
  Rows from;
  Rows to;
};

template <class Body>
void for_elements(const Rows& rows, const Body& body) {
  parallel_elements(rows.count(), rows.length(), rows.element_bytes(), body);
}

void quantise_all(const Kernels& kernels, const Pair& pair, float scale) {
  const bool past_caches = goes_past_caches(pair.to.bytes());
  for_elements(pair.from, [&](int64_t row, int64_t begin, int64_t end) {
    kernels.quantise_by(pair.from.element(row, begin), pair.to.element(row, begin), end - begin,
                        scale, past_caches);
    if (past_caches) finish_stream();
  });
}

uint32_t tensor_largest_bits(const Kernels& kernels, const Rows& rows) {
  std::atomic<uint32_t> largest{0};
  for_elements(rows, [&](int64_t row, int64_t begin, int64_t end) {
    const uint32_t found = kernels.largest_bits_of(rows.element(row, begin), end - begin);
    uint32_t seen = largest.load(std::memory_order_relaxed);
    while (seen < found && !largest.compare_exchange_weak(seen, found)) {
    }
  });
  return largest.load();
}

void static_per_tensor_quant(Tensor out, Tensor x, Tensor scale) {
  const Kernels kernels = kernels_for(out, x);
  const float by = *scales_of("scale", scale, 1, "the tensor");
  quantise_all(kernels, Pair(x, out), by);
}

void dynamic_per_tensor_quant(Tensor out, Tensor x, Tensor scale) {
  const Kernels kernels = kernels_for(out, x);
  float* const found = scales_of("scale", scale, 1, "the tensor");
  const Pair pair(x, out);
  *found = kernels.scale_for(tensor_largest_bits(kernels, pair.from));
  quantise_all(kernels, pair, *found);
}

void quantise_rows(const Kernels& kernels, const Rows& to, const Rows& from, float* scales,
                   int64_t group) {
  const int64_t groups = (from.length() + group - 1) / group;
  const bool past_caches = goes_past_caches(to.bytes());
  parallel_rows(from.count(), from.row_bytes(), [&](int64_t begin, int64_t end) {
    // The last row has none after it: it is looked at once more, for scales that nobody reads.
    std::vector<float> unread(static_cast<size_t>(groups));
    kernels.find_scales(from.row(begin), scales + begin * groups, from.length(), group);
    for (int64_t i = begin; i < end; ++i) {
      const bool last = i + 1 == end;
      kernels.quantise_row(from.row(i), from.row(last ? i : i + 1), to.row(i), scales + i * groups,
                           last ? unread.data() : scales + (i + 1) * groups, from.length(), group,
                           past_caches);
    }
    if (past_caches) finish_stream();
  });
}

void dynamic_per_token_quant(Tensor out, Tensor x, Tensor scales) {
  const Kernels kernels = kernels_for(out, x);
  const Rows from("x", x);
  const Rows to("out", out);
  float* const found = scales_of("scales", scales, from.count(), "each row of x");
  if (from.length() == 0) {
    std::fill(found, found + from.count(), 1.0f);
    return;
  }
  quantise_rows(kernels, to, from, found, from.length());
}

void dynamic_per_group_quant(Tensor out, Tensor x, Tensor scales, int64_t group) {
  const Kernels kernels = kernels_for(out, x);
  check(group >= 1, "group is ", group, ", expected at least 1");
  const Rows from("x", x);
  const Rows to("out", out);
  const int64_t groups = (from.length() + group - 1) / group;
  float* const found =
      scales_of("scales", scales, from.count() * groups, "each group of each row of x");
  quantise_rows(kernels, to, from, found, group);
}

}  // namespace
}  // namespace optest

STABLE_TORCH_LIBRARY_FRAGMENT(optest, m) {
  m.def("static_per_tensor_quant(Tensor(a!) out, Tensor x, Tensor scale) -> ()");
  m.def("dynamic_per_tensor_quant(Tensor(a!) out, Tensor x, Tensor(b!) scale) -> ()");
  m.def("dynamic_per_token_quant(Tensor(a!) out, Tensor x, Tensor(b!) scales) -> ()");
  m.def("dynamic_per_group_quant(Tensor(a!) out, Tensor x, Tensor(b!) scales, int group) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(optest, CPU, m) {
  m.impl("static_per_tensor_quant", TORCH_BOX(&optest::static_per_tensor_quant));
  m.impl("dynamic_per_tensor_quant", TORCH_BOX(&optest::dynamic_per_tensor_quant));
  m.impl("dynamic_per_token_quant", TORCH_BOX(&optest::dynamic_per_token_quant));
  m.impl("dynamic_per_group_quant", TORCH_BOX(&optest::dynamic_per_group_quant));
}
