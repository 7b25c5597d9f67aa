// Rows quantised as they are made, against the formula in fp64: a code may be the neighbour of the
// nearest one only where that lies, to fp32's rounding, half-way between the two.

#include "check.h"
#include "codes.h"

#define OPTEST_KERNELS "../../norm_quant_kernels.inl"
#include "optest/each_isa.h"

#include "columns.h"

using namespace check;
namespace neon = optest::neon;

constexpr float kEps = 1e-6f;

template <class Q>
void judge(Verdict& verdict, const std::vector<double>& made, const Room<uint8_t>& codes,
           double scale) {
  double largest = 0;
  for (const double value : made) largest = std::max(largest, std::fabs(value));
  const double limit = static_cast<double>(optest::kLargest<Q>);
  const double want = largest == 0 ? 1.0 : largest / limit;
  verdict.near("scale", 0, scale, want, 3e-6, 0);
  for (size_t i = 0; i < made.size(); ++i) {
    const double quotient = made[i] / want;
    const uint8_t low = code_of(quotient * (1 - 6e-6), Q{});
    const uint8_t high = code_of(quotient * (1 + 6e-6), Q{});
    const uint8_t got = codes[static_cast<int64_t>(i)];
    const bool zero = (got & 0x7f) == 0 && (low & 0x7f) == 0;  // of either sign
    verdict.take(got == low || got == high || zero, "codes", static_cast<int64_t>(i), got, low);
  }
}

template <class T, class Q>
void check_norm() {
  Verdict verdict(std::string("normed_row ") + kName<T> + " to " + kCodeName<Q>);
  Random random(19);
  for (const int64_t n : kLengths) {
    const double scale = n % 3 == 0 ? 0.0 : 2.0;
    const Room<T> x = numbers<T>(random, n, scale);
    const Room<T> before = numbers<T>(random, n, scale);
    Room<T> residual(before);
    const Room<float> weight = numbers<float>(random, n);
    Room<uint8_t> codes(n);
    const float got = neon::normed_row<T, Q>(x.data(), residual.data(), codes.data(),
                                             columns_for<T>(weight).data(), n, kEps, n % 2 == 0);
    double squares = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double sum = static_cast<float>(wide(x[i]) + wide(before[i]));
      verdict.near("residual", i, wide(residual[i]), wide(narrow_to<T>(sum)), 0, 0);
      squares += wide(residual[i]) * wide(residual[i]);
    }
    const double factor = 1 / std::sqrt(squares / static_cast<double>(n) + double{kEps});
    std::vector<double> made;
    for (int64_t i = 0; i < n; ++i) made.push_back(wide(residual[i]) * factor * double{weight[i]});
    judge<Q>(verdict, made, codes, got);
  }
}

template <class T, class Q>
void check_smooth() {
  Verdict verdict(std::string("smooth_scale, smooth_row ") + kName<T> + " to " + kCodeName<Q>);
  Random random(20);
  for (const int64_t n : kLengths) {
    const Room<T> x = numbers<T>(random, n, n % 3 == 0 ? 1e-3 : 30.0);
    const Room<T> next = numbers<T>(random, n);
    const Room<float> factors = numbers<float>(random, n);
    const Room<float> columns = columns_for<T>(factors);
    Room<uint8_t> codes(n);
    const float scale = neon::smooth_scale<T, Q>(x.data(), columns.data(), n);
    const float of_next = neon::smooth_row<T, Q>(x.data(), next.data(), codes.data(), columns.data(),
                                                 n, scale, n % 2 == 0);
    verdict.equal("scale of the next row", bits_as<int32_t>(of_next),
                  bits_as<int32_t>(neon::smooth_scale<T, Q>(next.data(), columns.data(), n)));
    std::vector<double> made;
    for (int64_t i = 0; i < n; ++i) made.push_back(wide(x[i]) * double{factors[i]});
    judge<Q>(verdict, made, codes, scale);
  }
}

int main() {
  for_dtypes([](auto like) {
    for_codes([](auto code) {
      check_norm<decltype(like), decltype(code)>();
      check_smooth<decltype(like), decltype(code)>();
    });
  });
  return exit_code();
}
