// Gates over two tensors: counts and maxima equal a scalar walk's, each operation rounded to fp32.

#include "check.h"
#include "optest/gate_row.h"
#include "optest/pair_run.h"

#define OPTEST_KERNELS "../../gates_kernels.inl"
#include "optest/each_isa.h"

using namespace check;
using optest::GateBounds;
using optest::GateRow;
using optest::PairRun;
namespace neon = optest::neon;

template <class T>
PairRun run_of(const Room<T>& a, const Room<T>& e, int64_t step) {
  const int64_t bytes = step * static_cast<int64_t>(sizeof(T));
  return {reinterpret_cast<const char*>(a.data()), reinterpret_cast<const char*>(e.data()), bytes,
          bytes, (a.size() + step - 1) / step};
}

// The actual side: the expected one, but for small and for large errors.
template <class T>
Room<T> actual_of(Random& random, const Room<T>& e) {
  Room<T> a(e);
  for (int64_t i = 0; i < e.size(); ++i) {
    const int64_t kind = random.below(8);
    if (kind == 0) a[i] = narrow_to<T>(wide(e[i]) + random.normal());
    if (kind == 1) a[i] = narrow_to<T>(wide(e[i]) * (1 + 0.02 * random.normal()));
  }
  return a;
}

float size_of(float a, float e, float floor) {
  return std::max(std::max(std::fabs(a), std::fabs(e)), floor) + 1e-9f;
}

void judge_one(float a, float e, const GateBounds& bounds, bool relative, GateRow* row) {
  if (bounds.ignore_nan && std::isnan(e)) {
    row->ignored += 1;
    return;
  }
  row->nan_actual += std::isnan(a);
  row->nan_expected += std::isnan(e);
  row->inf_actual += std::isinf(a);
  row->inf_expected += std::isinf(e);
  if (!std::isfinite(a) || !std::isfinite(e)) return;
  const float first = static_cast<float>(bounds.first), second = static_cast<float>(bounds.second);
  const float difference = std::fabs(a - e);
  if (relative) {
    const float share = difference / size_of(a, e, second);
    const bool bad = difference >= first && share > first;
    row->bad += bad;
    if (bad) row->worst = std::max(row->worst, double{share});
  } else {
    row->bad += difference > std::fabs(e) * second + first;
    row->worst = std::max(row->worst, double{difference});
  }
}

template <class T>
void judge(Verdict& verdict, const Room<T>& a, const Room<T>& e, int64_t step) {
  for (const bool relative : {false, true}) {
    for (const bool ignore_nan : {false, true}) {
      const GateBounds bounds{0.01, relative ? 0.5 : 0.02, ignore_nan};
      GateRow got, want;
      (relative ? neon::relative_run<T> : neon::allclose_run<T>)(run_of(a, e, step), bounds, &got);
      for (int64_t i = 0; i < a.size(); i += step) {
        judge_one(static_cast<float>(wide(a[i])), static_cast<float>(wide(e[i])), bounds, relative,
                  &want);
      }
      const char* const where = relative ? "relative_run" : "allclose_run";
      verdict.near(where, 0, got.bad, want.bad, 0, 0);
      verdict.near(where, 1, got.nan_actual, want.nan_actual, 0, 0);
      verdict.near(where, 2, got.inf_actual, want.inf_actual, 0, 0);
      verdict.near(where, 3, got.nan_expected, want.nan_expected, 0, 0);
      verdict.near(where, 4, got.inf_expected, want.inf_expected, 0, 0);
      verdict.near(where, 5, got.ignored, want.ignored, 0, 0);
      verdict.near(where, 6, got.worst, want.worst, 0, 0);
    }
  }
}

template <class T>
void check_bounds(T) {
  Verdict verdict(std::string("allclose_run, relative_run ") + kName<T>);
  Random random(33);
  for (const int64_t n : {1, 3, 7, 8, 13, 127, 1021, 4099}) {
    const Room<T> e = numbers<T>(random, n, 2.0);
    const Room<T> a = actual_of(random, e);
    judge(verdict, e, e, 1);
    judge(verdict, a, e, 1);
    judge(verdict, a, e, 3);
    for (const double special : {HUGE_VAL, std::nan(""), -HUGE_VAL}) {
      a[random.below(n)] = narrow_to<T>(special);
      e[random.below(n)] = narrow_to<T>(special);
      judge(verdict, a, e, 1);
    }
  }
}

template <class T>
void check_unequal(const char* name) {
  Verdict verdict(std::string("unequal_run ") + name);
  Random random(34);
  for (const int64_t n : {1, 3, 7, 8, 31, 127, 1021, 5003}) {
    const Room<T> a(n), b(n);
    int64_t want = 0;
    for (int64_t i = 0; i < n; ++i) {
      a[i] = static_cast<T>(random.bits());
      b[i] = random.below(3) ? a[i] : static_cast<T>(a[i] ^ 1 << random.below(8));
      want += a[i] != b[i];
    }
    GateRow row;
    neon::unequal_run<T>(run_of(a, b, 1), {}, &row);
    verdict.equal("changed", static_cast<int64_t>(row.changed), want);
    for (int64_t i = 0; i < n; ++i) b[i] = static_cast<T>(~a[i]);  // more than a lane of 8 bits counts
    neon::unequal_run<T>(run_of(a, b, 1), {}, &row);
    verdict.equal("all changed", static_cast<int64_t>(row.changed), want + n);
  }
}

struct Bins {
  std::vector<uint32_t> absolute, relative, expected;

  Bins() : absolute(kRoom), relative(kRoom), expected(kRoom) {}

  static constexpr size_t kRoom = static_cast<size_t>(optest::kBins) * optest::kCopies;
};

template <class T>
void check_spread(T) {
  Verdict verdict(std::string("spread_run ") + kName<T>);
  Random random(35);
  const float levels[] = {1e-3f, 1e-2f, 0.2f}, floors[] = {1e-6f, 0.5f, 1e-6f};
  const optest::SpreadThresholds thresholds(3, levels, floors);
  for (const int64_t n : {1, 7, 127, 1021, 4099}) {
    const Room<T> e = numbers<T>(random, n, 2.0);
    const Room<T> a = actual_of(random, e);
    if (n > 7) a[5] = narrow_to<T>(NAN);
    if (n > 7) e[6] = narrow_to<T>(HUGE_VAL);
    Bins bins;
    optest::SpreadPart part{bins.absolute.data(), bins.relative.data(), bins.expected.data()};
    neon::spread_run<T>(run_of(a, e, 1), thresholds, &part);
    double sum_difference = 0, sum_expected = 0, sum_actual = 0, sum_product = 0;
    float max_abs = 0, max_expected = 0;
    int64_t above[3] = {}, in_bins = 0, nan = 0, infinite = 0;
    for (int64_t i = 0; i < n; ++i) {
      const float x = static_cast<float>(wide(a[i])), y = static_cast<float>(wide(e[i]));
      nan += std::isnan(x);
      infinite += std::isinf(y);
      if (!std::isfinite(x) || !std::isfinite(y)) continue;
      const float difference = std::fabs(x - y);
      sum_difference += (double{x} - double{y}) * (double{x} - double{y});
      sum_expected += double{y} * double{y};
      sum_actual += double{x} * double{x};
      sum_product += double{x} * double{y};
      max_abs = std::max(max_abs, difference);
      max_expected = std::max(max_expected, std::fabs(y));
      for (int t = 0; t < 3; ++t) {
        const float share = difference / size_of(x, y, std::max(thresholds.floor[t], 1e-6f));
        above[t] += difference >= thresholds.level[t] && share > thresholds.level[t];
      }
    }
    for (const uint32_t count : bins.expected) in_bins += count;
    verdict.equal("elements in bins, padding too", in_bins, n + part.padded);
    verdict.equal("padding", part.padded, (4 - n % 4) % 4);
    verdict.equal("NaN", part.nan_actual, nan);
    verdict.equal("infinite", part.inf_expected, infinite);
    verdict.near("sums", 0, part.sum_difference, sum_difference, 1e-12, 0);
    verdict.near("sums", 1, part.sum_expected, sum_expected, 1e-12, 0);
    verdict.near("sums", 2, part.sum_actual, sum_actual, 1e-12, 0);
    verdict.near("sums", 3, part.sum_product, sum_product, 1e-12, 0);
    verdict.near("max_abs", 0, part.max_abs, max_abs, 0, 0);
    verdict.near("max_expected", 0, part.max_expected, max_expected, 0, 0);
    for (int t = 0; t < 3; ++t) verdict.equal("above", part.above[t], above[t]);
  }
}

void check_any() {
  Verdict verdict("any: one lane of a mask");
  for (int bits = 0; bits < 16; ++bits) {
    int32_t lanes[4];
    for (int i = 0; i < 4; ++i) lanes[i] = bits >> i & 1 ? -1 : 0;
    verdict.equal("any", neon::any(neon::load_raw<neon::I>(lanes)), bits != 0);
  }
}

int main() {
  check_any();
  for_dtypes([](auto like) {
    check_bounds(like);
    check_spread(like);
  });
  check_unequal<int8_t>("8 bits");
  check_unequal<int16_t>("16 bits");
  check_unequal<int32_t>("32 bits");
  check_unequal<int64_t>("64 bits");
  return exit_code();
}
