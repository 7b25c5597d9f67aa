// The walk over two tensors: counts equal a scalar walk's and the portable path's, sums to fp32's rounding.

#include "check.h"
#include "optest/compare_row.h"

#define OPTEST_KERNELS "../../compare_kernels.inl"
#include "optest/each_isa.h"

using namespace check;
using optest::Code8;
using optest::CompareBounds;
using optest::CompareRow;
using optest::CompareRun;
namespace neon = optest::neon;
namespace portable = optest::portable;

constexpr CompareBounds kBounds[] = {
    {1e-2, 1e-3, false, 0.5}, {0, 0, true, 0.01}, {1e-5, 1e-6, true, 0.1}, {0.37, 0.1, true, 0.5}};

template <class T>
double value_of(T value, const float*) {
  if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<double>(value);
  } else {
    return wide(value);
  }
}
double value_of(Code8 value, const float* codes) { return codes[value.bits]; }

// In C: the bound is a product and a sum, each rounded.
template <class C>
void walk_one(double reference, double candidate, const CompareBounds& bounds, CompareRow* row) {
  const C a = static_cast<C>(reference), b = static_cast<C>(candidate);
  const C magnitude = std::fabs(a);
  if (std::isfinite(a)) {
    row->sum_reference += reference * reference;
    row->peak = std::max(row->peak, static_cast<double>(magnitude));
  }
  if (!std::isfinite(a) || !std::isfinite(b)) {
    const bool match = a == b || (bounds.equal_nan && std::isnan(a) && std::isnan(b));
    row->mismatched += !match;
    row->nonfinite += !match;
    row->nan_reference += std::isnan(a);
    row->nan_candidate += std::isnan(b);
    row->inf_reference += std::isinf(a);
    row->inf_candidate += std::isinf(b);
    return;
  }
  const C difference = std::fabs(a - b);
  const volatile C product = magnitude * static_cast<C>(bounds.rtol);
  const C bound = product + static_cast<C>(bounds.atol);
  row->sum_difference += static_cast<double>(difference) * static_cast<double>(difference);
  row->max_abs = std::max(row->max_abs, static_cast<double>(difference));
  row->mismatched += difference > bound;
  if (difference > bound * 16) {
    const double excess = static_cast<double>(difference - magnitude / 2);
    row->margin = std::max(row->margin, excess);
    row->gross += excess > bounds.gross_floor;
  }
}

void judge(Verdict& verdict, const char* where, const CompareRow& got, const CompareRow& want) {
  verdict.near(where, 0, got.mismatched, want.mismatched, 0, 0);
  verdict.near(where, 1, got.nonfinite, want.nonfinite, 0, 0);
  verdict.near(where, 2, got.gross, want.gross, 0, 0);
  verdict.near(where, 3, got.different, want.different, 0, 0);
  verdict.near(where, 4, got.nan_reference, want.nan_reference, 0, 0);
  verdict.near(where, 5, got.nan_candidate, want.nan_candidate, 0, 0);
  verdict.near(where, 6, got.inf_reference, want.inf_reference, 0, 0);
  verdict.near(where, 7, got.inf_candidate, want.inf_candidate, 0, 0);
  verdict.near(where, 8, got.sum_reference, want.sum_reference, 1e-4, 0);
  verdict.near(where, 9, got.sum_difference, want.sum_difference, 1e-4, 0);
  verdict.near(where, 10, got.max_abs, want.max_abs, 0, 0);
  verdict.near(where, 11, got.peak, want.peak, 0, 0);
  verdict.near(where, 12, got.margin, want.margin, 0, 0);
}

template <class T>
void judge_both(Verdict& verdict, const Room<T>& a, const Room<T>& b, int64_t step,
                const float* codes) {
  using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const int64_t bytes = step * static_cast<int64_t>(sizeof(T));
  CompareRun run{};
  run.a = reinterpret_cast<const char*>(a.data());
  run.b = reinterpret_cast<const char*>(b.data());
  run.a_step = run.b_step = bytes;
  run.n = (a.size() + step - 1) / step;
  run.codes = codes;
  for (const CompareBounds& bounds : kBounds) {
    CompareRow got, plain, want;
    neon::compare_reals<T>(run, bounds, &got);
    portable::compare_reals<T>(run, bounds, &plain);
    for (int64_t i = 0; i < a.size(); i += step) {
      walk_one<C>(value_of(a[i], codes), value_of(b[i], codes), bounds, &want);
    }
    judge(verdict, "neon", got, want);
    judge(verdict, "portable", plain, want);
  }
}

// A candidate that is the reference, but for rounding here and a fault there.
template <class T>
void spoil(Random& random, const Room<T>& a, const Room<T>& b) {
  for (int64_t i = 0; i < a.size(); ++i) {
    const double value = wide(a[i]);
    const int64_t kind = random.below(16);
    if (kind == 0) b[i] = narrow_to<T>(value + random.normal());
    if (kind == 1) b[i] = narrow_to<T>(value * (1 + 0.02 * random.normal()));
  }
}

template <class T>
void check_floats(T) {
  Verdict verdict(std::string("compare_reals ") + kName<T>);
  Random random(11);
  for (const int64_t n : {1, 3, 7, 8, 13, 127, 1021, 4096, 4099, 9001}) {
    const Room<T> a = numbers<T>(random, n, 2.0);
    Room<T> b(a);
    judge_both(verdict, a, b, 1, nullptr);
    spoil(random, a, b);
    judge_both(verdict, a, b, 1, nullptr);
    judge_both(verdict, a, b, 3, nullptr);
    for (const double special : {HUGE_VAL, std::nan(""), -HUGE_VAL, 0.0}) {
      a[random.below(n)] = narrow_to<T>(special);
      b[random.below(n)] = narrow_to<T>(special);
      judge_both(verdict, a, b, 1, nullptr);
    }
  }
}

// Squares of these overflow, or vanish, in fp32.
void check_far_numbers() {
  Verdict verdict("compare_reals fp32, huge and tiny");
  Random random(12);
  for (const double scale : {1e30, 1e-30}) {
    const Room<float> a = numbers<float>(random, 129, scale);
    judge_both(verdict, a, numbers<float>(random, 129, scale), 1, nullptr);
  }
}

// What is as far off as the last bound allows, and an ulp to either side: one rounding more or less shows.
void check_at_the_bound() {
  Verdict verdict("compare_reals fp32, at the bound");
  Random random(25);
  const Room<float> a = numbers<float>(random, 4099, 2.0);
  const Room<float> b(a);
  for (int64_t i = 0; i < a.size(); ++i) {
    const float bound = static_cast<float>(std::fabs(double{a[i]}) * 0.37 + 0.1);
    b[i] = a[i] > 0 ? a[i] - bound : a[i] + bound;
    if (i % 3 != 0) b[i] = std::nextafterf(b[i], i % 3 == 1 ? -1e9f : 1e9f);
  }
  judge_both(verdict, a, b, 1, nullptr);
}

// One element of the other sign among equal ones, at each place of a vector.
template <class T>
void check_one_apart(T) {
  Verdict verdict(std::string("compare_reals ") + kName<T> + ", one of the other sign");
  Random random(26);
  const Room<T> a = numbers<T>(random, 37, 2.0);
  for (int64_t i = 0; i < a.size(); ++i) {
    const Room<T> b(a);
    b[i] = narrow_to<T>(-wide(b[i]));
    judge_both(verdict, a, b, 1, nullptr);
  }
}

void check_doubles() {
  Verdict verdict("compare_reals fp64");
  Random random(13);
  const Room<double> a(129), b(129);
  for (int64_t i = 0; i < 129; ++i) {
    a[i] = random.normal();
    b[i] = a[i] * (1 + (i % 5 == 0) * 1e-9) + (i % 7 == 0) * 0.1;
  }
  judge_both(verdict, a, b, 1, nullptr);
  judge_both(verdict, a, b, 2, nullptr);
}

template <class T>
void check_bytes(const char* name) {
  Verdict verdict(std::string("compare_reals of ") + name);
  Random random(14);
  float codes[256];
  for (int i = 0; i < 256; ++i) codes[i] = i == 127 ? NAN : static_cast<float>(random.normal());
  const Room<T> a(2051), b(2051);
  for (int64_t i = 0; i < 2051; ++i) {
    const uint8_t bits = static_cast<uint8_t>(random.bits());
    a[i] = bits_as<T>(bits);
    b[i] = bits_as<T>(static_cast<uint8_t>(i % 3 == 0 ? bits ^ 1 : bits));
  }
  judge_both(verdict, a, b, 1, codes);
  judge_both(verdict, a, b, 2, codes);
}

template <class T>
void check_integers(const char* name) {
  Verdict verdict(std::string("compare_integers ") + name);
  Random random(15);
  for (const int64_t n : kLengths) {
    Room<T> a(n), b(n);
    for (int64_t i = 0; i < n; ++i) {
      a[i] = static_cast<T>(uint64_t{random.bits()} << 32 | random.bits());
      b[i] = random.below(3) ? a[i] : static_cast<T>(a[i] ^ static_cast<T>(random.below(200)));
    }
    CompareRun run{};
    run.a = reinterpret_cast<const char*>(a.data());
    run.b = reinterpret_cast<const char*>(b.data());
    run.a_step = run.b_step = sizeof(T);
    run.n = n;
    const CompareBounds bounds{0, 100, false, 0};
    CompareRow got, want;
    neon::compare_integers<T>(run, bounds, &got);
    for (int64_t i = 0; i < n; ++i) {
      const __int128 wide_a = a[i], wide_b = b[i];
      const __int128 apart = wide_a > wide_b ? wide_a - wide_b : wide_b - wide_a;
      want.mismatched += apart > 100;
      want.different += apart > 0 && apart <= 100;
      want.max_abs = std::max(want.max_abs, static_cast<double>(apart));
      want.peak = std::max(want.peak, static_cast<double>(wide_a < 0 ? -wide_a : wide_a));
    }
    judge(verdict, "neon", got, want);
  }
}

int main() {
  for_dtypes([](auto like) { check_floats(like); });
  for_dtypes([](auto like) { check_one_apart(like); });
  check_at_the_bound();
  check_far_numbers();
  check_doubles();
  check_bytes<int8_t>("int8");
  check_bytes<uint8_t>("uint8");
  check_bytes<Code8>("codes");
  check_integers<int16_t>("int16");
  check_integers<uint16_t>("uint16");
  check_integers<int32_t>("int32");
  check_integers<uint32_t>("uint32");
  check_integers<int64_t>("int64");
  check_integers<uint64_t>("uint64");
  return exit_code();
}
