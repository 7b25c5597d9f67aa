// Products of a mixture of experts. Pairs of a token and an expert come sorted as moe.cpp has them:
//
//     grouped_gemm       out[pair] = x[pair / shared] @ w[expert of the pair].T, bf16, fp16 or fp32
//     grouped_gemm_a8w8  the same of int8 or e4m3, by x_scale[row of x] and w_scale[expert, column]
//     moe_combine        out[token] = sum over its pairs of weight * y[pair]
//
// x [rows, k], out [pairs, n]; rows of pairs without an expert are not written. Weights come packed, those
// of 8 bits by pack_w of gemm_quant.cpp, others by pack_experts.

#include <algorithm>
#include <vector>

#include "optest/dot_units.h"
#include "optest/gemm_driver.h"
#include "optest/types.h"

#define OPTEST_KERNELS "../../moe_gemm_kernels.inl"
#include "optest/each_isa.h"

#include "optest/gemm_quant.h"

namespace optest {
namespace {

// ---- kernels --------------------------------------------------------------------------------------

template <class T, class Out>
GemmKernels float_kernels() {
  GemmKernels kernels{portable::Fp32Unit::kBlock,
                      portable::FloatAsFp32<T>::kPackedBlock,
                      portable::Fp32Unit::kWideBlock,
                      OPTEST_SELECT(pack_fp32<T>),
                      OPTEST_SELECT(dot_fp32<T>),
                      nullptr,
                      OPTEST_SELECT(finish<float, Out>),
                      nullptr};
#if defined(OPTEST_X86)
  const bool tiles = std::is_same_v<T, Bf16> && current_dot_unit() == DotUnit::amx;
  if (std::is_same_v<T, Bf16> && current_dot_unit() >= DotUnit::bf16) {
    kernels.x_block = avx512::kBf16Block;
    kernels.wide_block = avx512::kBf16Block;
    kernels.pack_x = &avx512::pack_bf16;
    kernels.dot = tiles ? &avx512::amx_keep_dot : &avx512::pair_keep_dot;
    kernels.tile_in_place = !tiles;
  }
  if (tiles) {
    kernels.open = &avx512::open_tiles;
    kernels.close = &avx512::close_tiles;
  }
#endif
  return kernels;
}

GemmKernels float_kernels_for(const Tensor& out, const Tensor& x) {
  return by_float_dtype("x", x, [&](auto element) {
    using T = decltype(element);
    const bool same = out.scalar_type() == x.scalar_type();
    check(same || out.scalar_type() == ScalarType::Float, "out has dtype ",
          torch::headeronly::toString(out.scalar_type()), ", expected that of x or Float");
    return same ? float_kernels<T, T>() : float_kernels<T, float>();
  });
}

// ---- one expert after another ---------------------------------------------------------------------

struct Sorted {
  const int32_t* ids;
  const int32_t* block_experts;
  int64_t block;
  int64_t blocks;
  int64_t pairs;  // and the padding's id

  // Calls body(expert, ids of its pairs, how many).
  template <class Body>
  void each_expert(const Body& body) const {
    for (int64_t first = 0; first < blocks;) {
      int64_t last = first + 1;
      while (last < blocks && block_experts[last] == block_experts[first]) ++last;
      const int32_t* const begin = ids + first * block;
      const auto end = std::lower_bound(begin, ids + last * block, static_cast<int32_t>(pairs));
      body(block_experts[first], begin, end - begin);
      first = last;
    }
  }
};

void check_ints(const char* name, const Tensor& tensor) {
  check_dtype(name, tensor, ScalarType::Int);
  check(tensor.dim() == 1 && tensor.is_contiguous(), name, " has shape ", shape_of(tensor),
        ", expected one contiguous dimension");
}

Sorted sorted_pairs(const Tensor& ids, const Tensor& block_experts, const Tensor& total,
                    int64_t pairs, int64_t experts) {
  check_ints("sorted_ids", ids);
  check_ints("block_experts", block_experts);
  check_ints("total", total);
  check(total.numel() == 1, "total has shape ", shape_of(total), ", expected [1]");
  const int64_t count = block_experts.numel();
  check(count > 0 ? ids.numel() % count == 0 : ids.numel() == 0, "sorted_ids has shape ",
        shape_of(ids), ", expected as many for each of the ", count, " block_experts");
  const int64_t block = count > 0 ? ids.numel() / count : 1;
  const int64_t used = *static_cast<const int32_t*>(total.data_ptr());
  check(used >= 0 && used <= ids.numel() && used % block == 0, "total is ", used,
        ", expected a multiple of ", block, " up to ", ids.numel());
  const Sorted sorted{static_cast<const int32_t*>(ids.data_ptr()),
                      static_cast<const int32_t*>(block_experts.data_ptr()), block, used / block,
                      pairs};
  sorted.each_expert([&](int64_t expert, const int32_t* ids_of, int64_t n) {
    check(expert >= 0 && expert < experts, "block_experts holds ", expert, ", expected 0 to ",
          experts - 1);
    for (int64_t i = 0; i < n; ++i) {
      check(ids_of[i] >= 0, "sorted_ids holds ", ids_of[i], ", expected 0 or more");
    }
  });
  return sorted;
}

// The pairs of one expert.
struct OfExpert {
  int64_t expert;
  const int32_t* ids;
  int64_t count;
};

std::vector<OfExpert> experts_of(const Sorted& sorted) {
  std::vector<OfExpert> all;
  sorted.each_expert(
      [&](int64_t expert, const int32_t* ids, int64_t n) { all.push_back({expert, ids, n}); });
  return all;
}

// Rows of some experts, side by side.
struct Gathered {
  Gathered(const Matrices& like, std::vector<char>& room, int64_t rows) : all(like) {
    all.rows = rows;
    all.row_bytes = like.columns * like.element;
    room.resize(static_cast<size_t>(rows * all.row_bytes));
    all.data = room.data();
  }

  // Calls copy(i, row i) for all rows, on all threads.
  template <class Body>
  void each(const Body& copy) const {
    const int64_t some = std::max<int64_t>(1, (256 << 10) / std::max<int64_t>(all.row_bytes, 1));
    parallel_pieces(all.rows, some, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) copy(i, all.row(0, i));
    });
  }

  Matrices some(int64_t first, int64_t rows) const {
    Matrices part = all;
    part.rows = rows;
    part.data = all.row(0, first);
    return part;
  }

  Matrices all;
};

// Products of pairs, some experts at a time. `gemm` has the operands of all experts: its x and out by pair, w
// and w_scale of the first expert.
class Experts {
 public:
  Experts(const Gemm& gemm, int64_t shared) : gemm_(gemm), shared_(shared) {}

  void multiply_all(const std::vector<OfExpert>& all) {
    for (size_t first = 0; first < all.size();) {
      size_t last = first + 1;
      int64_t bytes = packed_bytes(gemm_, all[first].count);
      for (; last < all.size(); ++last) {
        bytes += packed_bytes(gemm_, all[last].count);
        if (bytes > kPackedBytes || most(all[first], all[last]) > kRowsAtATime) break;
      }
      multiply_some(all.data() + first, all.data() + last);
      first = last;
    }
  }

 private:
  static int64_t most(const OfExpert& a, const OfExpert& b) { return std::max(a.count, b.count); }

  void multiply_some(const OfExpert* first, const OfExpert* last) {
    ids_.clear();
    for (const OfExpert* each = first; each < last; ++each) {
      ids_.insert(ids_.end(), each->ids, each->ids + each->count);
    }
    const auto rows = static_cast<int64_t>(ids_.size());
    const auto row_of_x = static_cast<size_t>(gemm_.x.columns * gemm_.x.element);
    const auto row_of_out = static_cast<size_t>(gemm_.out.columns * gemm_.out.element);
    const Gathered x(gemm_.x, x_room_, rows), out(gemm_.out, out_room_, rows);
    x.each([&](int64_t i, char* to) { std::memcpy(to, gemm_.x.row(0, x_row(i)), row_of_x); });
    if (gemm_.x_scale != nullptr) {
      scales_.resize(ids_.size());
      for (int64_t i = 0; i < rows; ++i) scales_[static_cast<size_t>(i)] = gemm_.x_scale[x_row(i)];
    }
    std::vector<Gemm> gemms;
    for (int64_t row = 0; first < last; row += first++->count) {
      gemms.push_back(of_expert(*first, row, x, out));
    }
    multiply_together(gemms);
    out.each([&](int64_t i, const char* from) {
      std::memcpy(gemm_.out.row(0, ids_[static_cast<size_t>(i)]), from, row_of_out);
    });
  }

  int64_t x_row(int64_t i) const { return ids_[static_cast<size_t>(i)] / shared_; }

  Gemm of_expert(const OfExpert& of, int64_t row, const Gathered& x, const Gathered& out) const {
    Gemm one = gemm_;
    one.x = x.some(row, of.count);
    one.out = out.some(row, of.count);
    one.w += of.expert * gemm_.panels() * gemm_.panel_bytes();
    if (gemm_.x_scale != nullptr) {
      one.x_scale = scales_.data() + row;
      one.w_scale += of.expert * gemm_.out.columns;
    }
    return one;
  }

  const Gemm& gemm_;
  int64_t shared_;
  std::vector<int32_t> ids_;
  std::vector<char> x_room_, out_room_;
  std::vector<float> scales_;
};

// ---- the border -----------------------------------------------------------------------------------

Gemm checked(GemmKernels kernels, const Tensor& out, const Tensor& x, const Tensor& w,
             int64_t shared) {
  check(x.dim() == 2 && out.dim() == 2, "x has shape ", shape_of(x), " and out ", shape_of(out),
        ", expected 2 dimensions each");
  check_dtype("w", w, x.scalar_type());
  check(shared >= 1 && out.size(0) == x.size(0) * shared, "out has shape ", shape_of(out),
        ", expected ", shared, " rows for each of x, ", shape_of(x));
  const Gemm gemm{kernels, Matrices("out", out), Matrices("x", x),
                  static_cast<const uint8_t*>(w.data_ptr()), nullptr, nullptr, nullptr, false};
  const int64_t length = gemm.panel_bytes() / static_cast<int64_t>(w.element_size());
  check(w.is_contiguous() && w.dim() == 3 && w.size(1) == gemm.panels() && w.size(2) == length,
        "w has shape ", shape_of(w), ", expected [experts, ", gemm.panels(), ", ", length,
        "], as it is packed of [experts, ", gemm.out.columns, ", ", gemm.x.columns, "]");
  return gemm;
}

void grouped_gemm(Tensor out, Tensor x, Tensor w, Tensor sorted_ids, Tensor block_experts,
                  Tensor total, int64_t shared) {
  const Gemm gemm = checked(float_kernels_for(out, x), out, x, w, shared);
  const Sorted sorted = sorted_pairs(sorted_ids, block_experts, total, out.size(0), w.size(0));
  Experts(gemm, shared).multiply_all(experts_of(sorted));
}

void grouped_gemm_a8w8(Tensor out, Tensor x, Tensor w, Tensor x_scale, Tensor w_scale,
                       Tensor sorted_ids, Tensor block_experts, Tensor total, int64_t shared) {
  Gemm gemm = checked(kernels_for(out, check_int8(x, w)), out, x, w, shared);
  gemm.x_scale = scales_of("x_scale", x_scale, x.size(0), "one a row of x");
  gemm.w_scale = scales_of("w_scale", w_scale, w.size(0) * out.size(1), "one a row of w");
  const Sorted sorted = sorted_pairs(sorted_ids, block_experts, total, out.size(0), w.size(0));
  Experts(gemm, shared).multiply_all(experts_of(sorted));
}

void moe_combine(Tensor out, Tensor y, Tensor weights, Tensor ids, int64_t experts) {
  const auto add = by_float_dtype(
      "out", out, [](auto element) { return OPTEST_SELECT(add_weighted<decltype(element)>); });
  check_dtype("y", y, ScalarType::Float);
  check_dtype("weights", weights, ScalarType::Float);
  check_dtype("ids", ids, ScalarType::Int);
  check(ids.dim() == 2 && ids.is_contiguous() && weights.is_contiguous(), "ids has shape ",
        shape_of(ids), ", expected ids and weights [m, topk], contiguous");
  check_same_shape("weights", weights, ids);
  const int64_t topk = ids.size(1);
  check(out.dim() == 2 && out.size(0) == ids.size(0), "out has shape ", shape_of(out),
        ", expected [", ids.size(0), ", n]");
  const int64_t n = out.size(1);
  check(y.dim() == 2 && y.size(0) == ids.numel() && y.size(1) == n && y.is_contiguous(),
        "y has shape ", shape_of(y), ", expected a contiguous [", ids.numel(), ", ", n, "]");
  const Rows to("out", out);
  const auto* const from = static_cast<const float*>(y.data_ptr());
  const auto* const by = static_cast<const float*>(weights.data_ptr());
  const auto* const of = static_cast<const int32_t*>(ids.data_ptr());
  parallel_rows(to.count(), n * 4 * (topk + 1), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      add(from + i * topk * n, by + i * topk, of + i * topk, topk, experts, n, to.row(i));
    }
  });
}

void pack_experts(Tensor packed, Tensor w) {
  check_dtype("packed", packed, w.scalar_type());
  check(w.dim() == 3, "w has shape ", shape_of(w), ", expected [experts, n, k]");
  const Matrices from("w", w);
  by_float_dtype("w", w, [&](auto element) {
    using T = decltype(element);
    pack_panels<T>(packed, from, OPTEST_SELECT(pack_float_panel<T>));
  });
}

}  // namespace
}  // namespace optest

STABLE_TORCH_LIBRARY_FRAGMENT(optest, m) {
  m.def("pack_experts(Tensor(a!) packed, Tensor w) -> ()");
  m.def(
      "grouped_gemm(Tensor(a!) out, Tensor x, Tensor w, Tensor sorted_ids, Tensor block_experts, "
      "Tensor total, int shared) -> ()");
  m.def(
      "grouped_gemm_a8w8(Tensor(a!) out, Tensor x, Tensor w, Tensor x_scale, Tensor w_scale, "
      "Tensor sorted_ids, Tensor block_experts, Tensor total, int shared) -> ()");
  m.def(
      "moe_combine(Tensor(a!) out, Tensor y, Tensor weights, Tensor ids, int experts) -> ()");
  m.def("limit_moe_dot_unit(int unit) -> int");
}

STABLE_TORCH_LIBRARY_IMPL(optest, CPU, m) {
  m.impl("pack_experts", TORCH_BOX(&optest::pack_experts));
  m.impl("grouped_gemm", TORCH_BOX(&optest::grouped_gemm));
  m.impl("grouped_gemm_a8w8", TORCH_BOX(&optest::grouped_gemm_a8w8));
  m.impl("moe_combine", TORCH_BOX(&optest::moe_combine));
}

// No tensor tells the dispatcher a device here.
STABLE_TORCH_LIBRARY_IMPL(optest, CompositeExplicitAutograd, m) {
  m.impl("limit_moe_dot_unit", TORCH_BOX(&optest::limit_dot_unit));
}
