// Gated activations, fp32 inside and rounded once: x [.., 2d] -> out [.., d] of the same dtype,
//
//     out = act(x[.., :d]) * x[.., d:]
//
// with act one of silu(v) = v / (1 + e^-v), gelu(v) = v/2 (1 + erf(v / sqrt 2)), and gelu's tanh form
// v/2 (1 + tanh(sqrt(2/pi) (v + 0.044715 v^3))). Rows may have any stride.

#include "optest/memory.h"
#include "optest/parallel.h"
#include "optest/tensor.h"
#include "optest/types.h"

#define OPTEST_KERNELS "../../activation_kernels.inl"
#include "optest/each_isa.h"

namespace optest {
namespace {

using Kernel = void (*)(const void*, const void*, void*, int64_t, bool);

void check_shapes(const Tensor& out, const Tensor& x) {
  check_float_dtype("x", x);
  check_dtype("out", out, x.scalar_type());
  const int64_t last = x.dim() - 1;
  check(last >= 0 && x.size(last) % 2 == 0, "x has shape ", shape_of(x), ", expected [.., 2d]");
  bool halved = out.dim() == x.dim() && 2 * out.size(last) == x.size(last);
  for (int64_t i = 0; halved && i < last; ++i) halved = out.size(i) == x.size(i);
  check(halved, "out has shape ", shape_of(out), ", expected x's ", shape_of(x),
        " with its last dimension halved");
}

void activate(const Tensor& out, const Tensor& x, Kernel kernel) {
  const Rows from("x", x);
  const Rows to("out", out);
  const bool past_caches = goes_past_caches(to.bytes());
  const int64_t d = to.length();
  // Three elements pass for each one of the output.
  parallel_elements(to.count(), d, 3 * to.element_bytes(),
                    [&](int64_t row, int64_t begin, int64_t end) {
                      kernel(from.element(row, begin), from.element(row, d + begin),
                             to.element(row, begin), end - begin, past_caches);
                      if (past_caches) finish_stream();
                    });
}

void silu_and_mul(Tensor out, Tensor x) {
  check_shapes(out, x);
  activate(out, x, by_float_dtype("x", x, [](auto element) {
    return OPTEST_SELECT(silu_row<decltype(element)>);
  }));
}

void gelu_and_mul(Tensor out, Tensor x) {
  check_shapes(out, x);
  activate(out, x, by_float_dtype("x", x, [](auto element) {
    return OPTEST_SELECT(gelu_row<decltype(element)>);
  }));
}

void gelu_tanh_and_mul(Tensor out, Tensor x) {
  check_shapes(out, x);
  activate(out, x, by_float_dtype("x", x, [](auto element) {
    return OPTEST_SELECT(gelu_tanh_row<decltype(element)>);
  }));
}

}  // namespace
}  // namespace optest

STABLE_TORCH_LIBRARY_FRAGMENT(optest, m) {
  m.def("silu_and_mul(Tensor(a!) out, Tensor x) -> ()");
  m.def("gelu_and_mul(Tensor(a!) out, Tensor x) -> ()");
  m.def("gelu_tanh_and_mul(Tensor(a!) out, Tensor x) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(optest, CPU, m) {
  m.impl("silu_and_mul", TORCH_BOX(&optest::silu_and_mul));
  m.impl("gelu_and_mul", TORCH_BOX(&optest::gelu_and_mul));
  m.impl("gelu_tanh_and_mul", TORCH_BOX(&optest::gelu_tanh_and_mul));
}
