// Gates over an actual and an expected tensor in one pass: elements outside a bound by blocks, rows of a
// pool that must not change, rows of picks that only tie, and the distribution of the errors.

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <vector>

#include "optest/gate_row.h"
#include "optest/isa.h"
#include "optest/parallel.h"
#include "optest/tensor.h"
#include "optest/ties.h"
#include "optest/types.h"
#include "optest/walk.h"

#define OPTEST_KERNELS "../../gates_kernels.inl"
#include "optest/each_isa.h"

namespace optest {
namespace {

using GateKernel = void (*)(const PairRun&, const GateBounds&, GateRow*);
using SpreadKernel = void (*)(const PairRun&, const SpreadThresholds&, SpreadPart*);

GateKernel unequal_kernel(const Tensor& tensor) {
  switch (tensor.element_size()) {
    case 1:
      return OPTEST_SELECT(unequal_run<int8_t>);
    case 2:
      return OPTEST_SELECT(unequal_run<int16_t>);
    case 4:
      return OPTEST_SELECT(unequal_run<int32_t>);
    case 8:
      return OPTEST_SELECT(unequal_run<int64_t>);
    default:
      fail("actual has elements of ", tensor.element_size(), " bytes, expected 1, 2, 4 or 8");
  }
}

template <class T>
GateKernel gate_kernel_of(int64_t rule) {
  return rule == 0 ? OPTEST_SELECT(allclose_run<T>) : OPTEST_SELECT(relative_run<T>);
}

// Of rules 0 (allclose), 1 (relative difference) and 2 (same bits).
GateKernel gate_kernel(const Tensor& tensor, int64_t rule) {
  check(rule >= 0 && rule <= 2, "rule is ", rule, ", expected 0, 1 or 2");
  if (rule == 2) return unequal_kernel(tensor);
  return by_float_dtype("actual", tensor, [rule](auto element) {
    return gate_kernel_of<decltype(element)>(rule);
  });
}

SpreadKernel spread_kernel(const Tensor& tensor) {
  return by_float_dtype("actual", tensor, [](auto element) {
    return OPTEST_SELECT(spread_run<decltype(element)>);
  });
}

// Row i of a [rows, width] pair is judged by the rule where mapped[i] is set, else by its bits.
struct Mapped {
  const uint8_t* flags = nullptr;
  int64_t width = 0;

  // The end of the rows from `row` on that are judged as it is, `last` at most.
  int64_t alike(int64_t row, int64_t last) const {
    return std::find(flags + row, flags + last, static_cast<uint8_t>(!flags[row])) - flags;
  }
};

Mapped checked_mapped(const std::optional<Tensor>& mapped, const Tensor& actual, int64_t block) {
  if (!mapped.has_value()) return {};
  check_dtype("mapped", *mapped, ScalarType::Byte);
  check(actual.dim() == 2, "actual has shape ", shape_of(actual), ", expected [rows, width]");
  check(mapped->is_contiguous() && mapped->dim() == 1 && mapped->numel() == actual.size(0),
        "mapped has shape ", shape_of(*mapped), ", expected contiguous [", actual.size(0), "]");
  check(block % actual.size(1) == 0, "block is ", block, ", expected a multiple of the width ",
        actual.size(1));
  return {static_cast<const uint8_t*>(mapped->data_ptr()), actual.size(1)};
}

void gate_scan(Tensor actual, Tensor expected, int64_t rule, double first, double second,
               bool ignore_nan, std::optional<Tensor> mapped, int64_t block, Tensor rows) {
  check_same_shape("expected", expected, actual);
  check_dtype("expected", expected, actual.scalar_type());
  check_dtype("rows", rows, ScalarType::Double);
  check(block > 0, "block is ", block, ", expected at least 1");
  const int64_t count = actual.numel();
  const int64_t blocks = (count + block - 1) / block;
  check(rows.is_contiguous() && rows.dim() == 2 && rows.size(0) == blocks &&
            rows.size(1) == kGateColumns,
        "rows has shape ", shape_of(rows), ", expected contiguous [", blocks, ", ", kGateColumns,
        "]");
  const Mapped pool = checked_mapped(mapped, actual, block);
  const GateKernel kernel = gate_kernel(actual, rule);
  const GateKernel unequal = unequal_kernel(actual);
  const GateBounds bounds{first, second, ignore_nan};
  const Walk walk(actual, expected);
  auto* const out = static_cast<GateRow*>(rows.data_ptr());
  const auto judge = [&](int64_t begin, int64_t end, GateKernel by, GateRow* row) {
    walk.runs(begin, end, [&](const PairRun& run) { by(run, bounds, row); });
  };
  parallel_pieces(blocks, 1, [&](int64_t first_block, int64_t last_block) {
    for (int64_t i = first_block; i < last_block; ++i) {
      GateRow row;
      const int64_t end = std::min(count, (i + 1) * block);
      if (pool.flags == nullptr) {
        judge(i * block, end, kernel, &row);
      } else {
        for (int64_t at = i * block; at < end;) {
          const int64_t from = at / pool.width;
          const int64_t to = pool.alike(from, end / pool.width);
          judge(at, to * pool.width, pool.flags[from] ? kernel : unequal, &row);
          at = to * pool.width;
        }
      }
      out[i] = row;
    }
  });
}

// ---- rows -----------------------------------------------------------------------------------------

template <class Index, class T>
bool tied(const Picks& actual, const Picks& expected, int64_t k, bool descending) {
  return TiedRow<Index, T>(actual, expected, k, descending).tied();
}

using Tied = bool (*)(const Picks&, const Picks&, int64_t, bool);

Tied tied_of(const Tensor& indices, const Tensor& values) {
  return by_float_dtype("actual_values", values, [&](auto element) -> Tied {
    using T = decltype(element);
    switch (indices.element_size()) {
      case 1:
        return tied<int8_t, T>;
      case 2:
        return tied<int16_t, T>;
      case 4:
        return tied<int32_t, T>;
      case 8:
        return tied<int64_t, T>;
      default:
        fail("actual has elements of ", indices.element_size(), " bytes, expected 1, 2, 4 or 8");
    }
  });
}

// Row i of [rows, k] indices and values.
class PickRows {
 public:
  PickRows(const Tensor& indices, const Tensor& values)
      : first_{static_cast<const char*>(indices.data_ptr()),
               static_cast<const char*>(values.data_ptr()), step(indices, 1), step(values, 1)},
        index_row_(step(indices, 0)),
        value_row_(step(values, 0)) {}

  Picks operator[](int64_t row) const {
    Picks picks = first_;
    picks.indices += row * index_row_;
    picks.values += row * value_row_;
    return picks;
  }

 private:
  static int64_t step(const Tensor& tensor, int64_t dim) {
    return tensor.stride(dim) * static_cast<int64_t>(tensor.element_size());
  }

  Picks first_;
  int64_t index_row_;
  int64_t value_row_;
};

// Which rows of [rows, k] picks are the golden's in another order of ties.
class Ties {
 public:
  Ties(const Tensor& actual, const Tensor& expected, const Tensor& actual_values,
       const Tensor& expected_values, bool descending)
      : tied_(tied_of(actual, actual_values)),
        actual_(actual, actual_values),
        expected_(expected, expected_values),
        k_(actual.size(1)),
        descending_(descending) {
    check_same_shape("actual_values", actual_values, actual);
    check_same_shape("expected_values", expected_values, actual);
    check_dtype("expected_values", expected_values, actual_values.scalar_type());
  }

  bool operator()(int64_t row) const {
    return tied_(actual_[row], expected_[row], k_, descending_);
  }

 private:
  Tied tied_;
  PickRows actual_, expected_;
  int64_t k_;
  bool descending_;
};

// Sets flags[i] to 1 where row i of [.., length] tensors differs in a bit, and else to 0. With values, these
// are [rows, k] picks: rows that only tie are left out.
void gate_rows(Tensor actual, Tensor expected, std::optional<Tensor> actual_values,
               std::optional<Tensor> expected_values, bool descending, Tensor flags) {
  check_same_shape("expected", expected, actual);
  check_dtype("expected", expected, actual.scalar_type());
  check_dtype("flags", flags, ScalarType::Byte);
  check(actual.dim() > 0 && actual.numel() > 0, "actual has shape ", shape_of(actual),
        ", expected rows of elements");
  const int64_t length = actual.size(actual.dim() - 1);
  const int64_t rows = actual.numel() / length;
  check(flags.is_contiguous() && flags.numel() == rows, "flags has shape ", shape_of(flags),
        ", expected contiguous with ", rows, " elements");
  const GateKernel unequal = unequal_kernel(actual);
  const GateBounds bounds{};
  std::optional<Ties> ties;
  if (actual_values.has_value() && expected_values.has_value()) {
    check(actual.dim() == 2, "actual has shape ", shape_of(actual), ", expected [rows, k]");
    ties.emplace(actual, expected, *actual_values, *expected_values, descending);
  }
  const Walk walk(actual, expected);
  const bool dense = actual.is_contiguous() && expected.is_contiguous();
  const auto* const a = static_cast<const char*>(actual.data_ptr());
  const auto* const e = static_cast<const char*>(expected.data_ptr());
  auto* const out = static_cast<uint8_t*>(flags.data_ptr());
  const int64_t row_bytes = length * static_cast<int64_t>(actual.element_size());
  const auto same = [&](int64_t row, int64_t n) {
    const auto bytes = static_cast<size_t>(n * row_bytes);
    return dense && std::memcmp(a + row * row_bytes, e + row * row_bytes, bytes) == 0;
  };
  const auto differs = [&](int64_t i) {
    if (dense) return !same(i, 1);
    GateRow row;
    walk.runs(i * length, (i + 1) * length,
              [&](const PairRun& run) { unequal(run, bounds, &row); });
    return row.changed != 0;
  };
  // Most rows are equal: many are told at once.
  const int64_t many = std::max<int64_t>(1, 16 * 1024 / row_bytes);
  parallel_rows(rows, row_bytes, [&](int64_t begin, int64_t end) {
    for (; begin < end; begin += many) {
      const int64_t stop = std::min(end, begin + many);
      if (same(begin, stop - begin)) {
        std::memset(out + begin, 0, static_cast<size_t>(stop - begin));
        continue;
      }
      for (int64_t i = begin; i < stop; ++i) out[i] = differs(i) && !(ties && (*ties)(i));
    }
  });
}

// ---- distribution ---------------------------------------------------------------------------------

// What all threads have counted, in the tensors that the caller gave.
class Spread {
 public:
  Spread(const Tensor& bins, const Tensor& counts, const Tensor& numbers, const Tensor& above)
      : bins_(static_cast<int64_t*>(bins.data_ptr())),
        counts_(static_cast<int64_t*>(counts.data_ptr())),
        numbers_(static_cast<double*>(numbers.data_ptr())),
        above_(static_cast<double*>(above.data_ptr())) {}

  void add(const SpreadPart& part, int64_t elements, const SpreadThresholds& thresholds) {
    const std::lock_guard<std::mutex> hold(mutex_);
    const uint32_t* const sides[] = {part.absolute, part.relative, part.expected};
    for (int side = 0; side < 3; ++side) {
      int64_t* const to = bins_ + side * kBins;
      for (int64_t i = 0; i < kBins * kCopies; ++i) to[i / kCopies] += sides[side][i];
      to[0] -= part.left_out;
    }
    bins_[0] += part.equal;
    bins_[kBins] += part.equal;
    const int64_t counts[] = {elements - (part.left_out - part.padded), part.nan_actual,
                              part.inf_actual, part.nan_expected, part.inf_expected};
    for (int i = 0; i < 5; ++i) counts_[i] += counts[i];
    const double sums[] = {part.sum_difference, part.sum_expected, part.sum_actual,
                           part.sum_product, part.sum_magnitude};
    for (int i = 0; i < 5; ++i) numbers_[i] += sums[i];
    const double maxima[] = {part.max_abs, part.max_relative, part.max_expected};
    for (int i = 0; i < 3; ++i) numbers_[5 + i] = std::max(numbers_[5 + i], maxima[i]);
    for (int64_t t = 0; t < thresholds.n; ++t) {
      above_[2 * t] += static_cast<double>(part.above[t]);
      above_[2 * t + 1] = std::max(above_[2 * t + 1], static_cast<double>(part.worst[t]));
    }
  }

 private:
  std::mutex mutex_;
  int64_t* bins_;
  int64_t* counts_;
  double* numbers_;
  double* above_;
};

SpreadThresholds checked_thresholds(const Tensor& thresholds) {
  check_dtype("thresholds", thresholds, ScalarType::Float);
  check(thresholds.is_contiguous() && thresholds.dim() == 2 && thresholds.size(0) == 2 &&
            thresholds.size(1) <= kMostThresholds,
        "thresholds has shape ", shape_of(thresholds), ", expected contiguous [2, n], n <= ",
        kMostThresholds);
  const int64_t n = thresholds.size(1);
  const auto* const values = static_cast<const float*>(thresholds.data_ptr());
  check(std::is_sorted(values, values + n), "thresholds must ascend");
  return {n, values, values + n};
}

void check_room(const char* name, const Tensor& room, ScalarType dtype, int64_t rows,
                int64_t columns) {
  check_dtype(name, room, dtype);
  check(room.is_contiguous() && room.dim() == 2 && room.size(0) == rows && room.size(1) == columns,
        name, " has shape ", shape_of(room), ", expected contiguous [", rows, ", ", columns, "]");
}

// thresholds: levels, then the floors of their denominators. All other tensors are added to.
void gate_spread(Tensor actual, Tensor expected, Tensor thresholds, Tensor bins, Tensor counts,
                 Tensor numbers, Tensor above) {
  check_same_shape("expected", expected, actual);
  check_dtype("expected", expected, actual.scalar_type());
  const SpreadThresholds levels = checked_thresholds(thresholds);
  check_room("bins", bins, ScalarType::Long, 3, kBins);
  check_room("counts", counts, ScalarType::Long, 1, 5);
  check_room("numbers", numbers, ScalarType::Double, 1, 8);
  check_room("above", above, ScalarType::Double, levels.n, 2);
  const SpreadKernel kernel = spread_kernel(actual);
  const Walk walk(actual, expected);
  Spread all(bins, counts, numbers, above);
  const int64_t count = actual.numel();
  constexpr int64_t piece = 1 << 16;
  const int64_t pieces = (count + piece - 1) / piece;
  const int64_t workers = std::min<int64_t>(torch::stable::get_num_threads(), pieces);
  std::atomic<int64_t> next{0};
  torch::stable::parallel_for(0, workers, 1, [&](int64_t, int64_t) {
    constexpr int64_t side = kBins * kCopies;
    std::vector<uint32_t> own(3 * side);
    SpreadPart part{own.data(), own.data() + side, own.data() + 2 * side};
    int64_t elements = 0;
    for (int64_t i = next++; i < pieces; i = next++) {
      const int64_t stop = std::min(count, (i + 1) * piece);
      walk.runs(i * piece, stop, [&](const PairRun& run) { kernel(run, levels, &part); });
      elements += stop - i * piece;
      if (elements >> 31 == 0) continue;  // as far as 32 bits count
      all.add(part, elements, levels);
      std::fill(own.begin(), own.end(), 0);
      part = {own.data(), own.data() + side, own.data() + 2 * side};
      elements = 0;
    }
    all.add(part, elements, levels);
  });
}

}  // namespace
}  // namespace optest

STABLE_TORCH_LIBRARY_FRAGMENT(optest, m) {
  m.def(
      "gate_scan(Tensor actual, Tensor expected, int rule, float first, float second, "
      "bool ignore_nan, Tensor? mapped, int block, Tensor(a!) rows) -> ()");
  m.def(
      "gate_rows(Tensor actual, Tensor expected, Tensor? actual_values, Tensor? expected_values, "
      "bool descending, Tensor(a!) flags) -> ()");
  m.def(
      "gate_spread(Tensor actual, Tensor expected, Tensor thresholds, Tensor(a!) bins, "
      "Tensor(b!) counts, Tensor(c!) numbers, Tensor(d!) above) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(optest, CPU, m) {
  m.impl("gate_scan", TORCH_BOX(&optest::gate_scan));
  m.impl("gate_rows", TORCH_BOX(&optest::gate_rows));
  m.impl("gate_spread", TORCH_BOX(&optest::gate_spread));
}
