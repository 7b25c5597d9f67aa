// Mixture-of-experts routing, fp32 inside:
//
//     topk_softmax   weights = the k largest of softmax(gating), ids = their experts
//     grouped_topk   s = sigmoid(gating); the best groups by the sum of their two largest s + bias; of
//                    their experts the k of the largest s + bias, ids; weights = their s
//
// gating [m, n] bf16, fp16 or fp32, rows of any stride; weights [m, k] fp32 and ids [m, k] int32,
// contiguous. The best comes first, of equal ones the lower expert; NaN is above all numbers. Renormalised
// weights are divided by their sum; grouped_topk's are multiplied by `scale` then.

#include <vector>

#include "optest/parallel.h"
#include "optest/tensor.h"
#include "optest/types.h"

#define OPTEST_KERNELS "../../routing_kernels.inl"
#include "optest/each_isa.h"

namespace optest {
namespace {

// What the kernels write, and the rows that they read.
struct Pairs {
  Pairs(const Tensor& weights_, const Tensor& ids_, const Tensor& gating)
      : rows("gating", gating), k(weights_.dim() == 2 ? weights_.size(1) : 0) {
    check_float_dtype("gating", gating);
    check(gating.dim() == 2, "gating has shape ", shape_of(gating), ", expected [m, n]");
    check(weights_.dim() == 2 && weights_.size(0) == gating.size(0) && k <= gating.size(1),
          "weights has shape ", shape_of(weights_), ", expected [", gating.size(0), ", k], k at most ",
          gating.size(1));
    check_same_shape("ids", ids_, weights_);
    check_dtype("weights", weights_, ScalarType::Float);
    check_dtype("ids", ids_, ScalarType::Int);
    check(weights_.is_contiguous(), "weights has strides, expected a contiguous tensor");
    check(ids_.is_contiguous(), "ids has strides, expected a contiguous tensor");
    weights = static_cast<float*>(weights_.data_ptr());
    ids = static_cast<int32_t*>(ids_.data_ptr());
  }

  // Calls body(row, scratch, weights, ids) for each row.
  template <class Body>
  void each_row(int64_t scratch_floats, const Body& body) const {
    constexpr int64_t scores_a_piece = 16 * 1024;
    if (k == 0) return;
    const int64_t piece = scores_a_piece / rows.length();
    parallel_pieces(rows.count(), piece, [&](int64_t begin, int64_t end) {
      std::vector<float> scratch(static_cast<size_t>(scratch_floats));
      for (int64_t i = begin; i < end; ++i) {
        body(rows.row(i), scratch.data(), weights + i * k, ids + i * k);
      }
    });
  }

  Rows rows;
  int64_t k;
  float* weights;
  int32_t* ids;
};

void topk_softmax(Tensor weights, Tensor ids, Tensor gating, bool renormalize) {
  const Pairs pairs(weights, ids, gating);
  const auto kernel = by_float_dtype("gating", gating, [](auto element) {
    return OPTEST_SELECT(topk_softmax_row<decltype(element)>);
  });
  const auto room = OPTEST_SELECT(scratch_room);
  const int64_t n = pairs.rows.length();
  pairs.each_row(room(1, n), [&](const void* row, float* scratch, float* w, int32_t* chosen) {
    kernel(row, n, pairs.k, renormalize, scratch, w, chosen);
  });
}

void grouped_topk(Tensor weights, Tensor ids, Tensor gating, Tensor bias, int64_t groups,
                  int64_t topk_groups, bool renormalize, double scale) {
  const Pairs pairs(weights, ids, gating);
  const int64_t n = pairs.rows.length();
  check_dtype("bias", bias, ScalarType::Float);
  check(bias.dim() == 1 && bias.size(0) == n && bias.is_contiguous(), "bias has shape ",
        shape_of(bias), ", expected a contiguous [", n, "]");
  check(groups >= 1 && n % groups == 0, "groups is ", groups, ", expected a divisor of ", n);
  check(topk_groups >= 1 && topk_groups <= groups, "topk_groups is ", topk_groups,
        ", expected 1 to ", groups);
  const int64_t size = n / groups;
  check(pairs.k <= topk_groups * size, "weights has ", pairs.k, " columns, expected at most ",
        topk_groups * size, ", the experts of the chosen groups");
  const auto kernel = by_float_dtype("gating", gating, [](auto element) {
    return OPTEST_SELECT(grouped_topk_row<decltype(element)>);
  });
  const auto room = OPTEST_SELECT(scratch_room);
  const float* const biases = static_cast<const float*>(bias.data_ptr());
  pairs.each_row(room(groups, size), [&](const void* row, float* scratch, float* w, int32_t* chosen) {
    kernel(row, biases, groups, size, topk_groups, pairs.k, renormalize, static_cast<float>(scale),
           scratch, w, chosen);
  });
}

}  // namespace
}  // namespace optest

STABLE_TORCH_LIBRARY_FRAGMENT(optest, m) {
  m.def("topk_softmax(Tensor(a!) weights, Tensor(b!) ids, Tensor gating, bool renormalize) -> ()");
  m.def(
      "grouped_topk(Tensor(a!) weights, Tensor(b!) ids, Tensor gating, Tensor bias, int groups, "
      "int topk_groups, bool renormalize, float scale) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(optest, CPU, m) {
  m.impl("topk_softmax", TORCH_BOX(&optest::topk_softmax));
  m.impl("grouped_topk", TORCH_BOX(&optest::grouped_topk));
}
