// RMSNorm of rows, and with the sum of a residual, against the formula in fp64.

#include "check.h"

#define OPTEST_KERNELS "../../norm_kernels.inl"
#include "optest/each_isa.h"

#include "columns.h"

using namespace check;
namespace neon = optest::neon;

constexpr float kEps = 1e-6f;

template <class T>
double squares_of(const Room<T>& x) {
  double sum = 0;
  for (int64_t i = 0; i < x.size(); ++i) sum += wide(x[i]) * wide(x[i]);
  return sum;
}

template <class T, class W>
void judge(Verdict& verdict, const Room<T>& x, const Room<W>& weight, const Room<T>& got) {
  const int64_t n = x.size();
  const double factor = 1 / std::sqrt(squares_of(x) / static_cast<double>(n) + double{kEps});
  for (int64_t i = 0; i < n; ++i) {
    verdict.near("row", i, wide(got[i]), wide(x[i]) * factor * wide(weight[i]),
                 1.01 * kHalfStep<T> + 2e-6, 0x1p-24);
  }
}

template <class T, class W>
void check_rmsnorm() {
  Verdict verdict(std::string("rmsnorm_row ") + kName<T> + ", weight " + kName<W>);
  Random random(7);
  for (const int64_t n : kLengths) {
    const Room<T> x = numbers<T>(random, n, 3.0);
    const Room<T> next = numbers<T>(random, n, 0.01);
    const Room<W> weight = numbers<W>(random, n);
    const Room<float> columns = columns_for<T>(weight);
    Room<T> out(n);
    const float squares = neon::sum_of_squares<T>(x.data(), n);
    const float of_next = neon::rmsnorm_row<T>(x.data(), next.data(), out.data(), columns.data(), n,
                                               kEps, squares, n % 2 == 0);
    judge(verdict, x, weight, out);
    verdict.near("squares of the next row", n, of_next, squares_of(next), 2e-5, 0);
  }
}

template <class T>
void check_fused_add() {
  Verdict verdict(std::string("fused_add_rmsnorm_row ") + kName<T>);
  Random random(8);
  for (const int64_t n : kLengths) {
    Room<T> x = numbers<T>(random, n);
    Room<T> residual = numbers<T>(random, n, 4.0);
    const Room<float> weight = numbers<float>(random, n);
    Room<T> sum(n);
    for (int64_t i = 0; i < n; ++i) sum[i] = narrow_to<T>(wide(x[i]) + wide(residual[i]));
    neon::fused_add_rmsnorm_row<T>(x.data(), residual.data(), columns_for<T>(weight).data(), n, kEps);
    for (int64_t i = 0; i < n; ++i) {  // twice rounded: to fp32, then to T
      verdict.near("residual", i, wide(residual[i]), wide(sum[i]), 2.01 * kHalfStep<T>, 0x1p-24);
    }
    judge(verdict, residual, weight, x);
  }
}

template <class T>
void check_special(T) {
  Verdict verdict(std::string("rmsnorm_row ") + kName<T> + " of zeros, of NaN");
  const int64_t n = 129;
  Random random(9);
  const Room<float> weight = numbers<float>(random, n);
  Room<T> x = numbers<T>(random, n, 0.0);
  Room<T> out(n);
  for (const double special : {0.0, std::nan("")}) {
    x[n - 1] = narrow_to<T>(special);
    const float squares = neon::sum_of_squares<T>(x.data(), n);
    neon::rmsnorm_row<T>(x.data(), x.data(), out.data(), columns_for<T>(weight).data(), n, kEps,
                         squares, false);
    for (int64_t i = 0; i < n; ++i) verdict.near("row", i, wide(out[i]), special, 0, 0);
  }
}

int main() {
  for_dtypes([](auto like) {
    using T = decltype(like);
    for_dtypes([](auto weight) { check_rmsnorm<T, decltype(weight)>(); });
    check_fused_add<T>();
    check_special(like);
  });
  return exit_code();
}
