// Quantisation of rows: scales and codes equal the definition's, and the portable path's, in every bit.

#include "check.h"
#include "codes.h"

#define OPTEST_KERNELS "../../quant_kernels.inl"
#include "optest/each_isa.h"

using namespace check;
namespace neon = optest::neon;
namespace portable = optest::portable;

// Ordinary ones, and ones for which a reciprocal is not exact enough.
constexpr float kScales[] = {1.0f, 0.013f, 3.7e-3f, 1e-30f, 1e-39f, 3e38f};

// The quotient is a correctly rounded fp32 one.
template <class Q, class T>
uint8_t quotient_code(T x, float scale) {
  return code_of(static_cast<float>(wide(x)) / scale, Q{});
}

// All that 16 bits can be; of fp32, random bits and what lies around the ties of codes.
template <class T>
std::vector<T> patterns() {
  std::vector<T> all;
  for (uint32_t i = 0; i < 65536; ++i) all.push_back(T{static_cast<uint16_t>(i)});
  return all;
}
template <>
std::vector<float> patterns<float>() {
  std::vector<float> all;
  Random random(4);
  for (int i = 0; i < 20000; ++i) all.push_back(bits_as<float>(random.bits()));
  for (int i = -2048; i < 2048; ++i) {
    for (int j = -2; j <= 2; ++j) {
      const float tie = static_cast<float>(i) / 16.0f;
      all.push_back(j == 0 ? tie : std::nextafterf(tie, j < 0 ? -1e9f : 1e9f) * (j * j > 1 ? 8 : 1));
    }
  }
  return all;
}

template <class T, class Q>
void check_static() {
  Verdict verdict(std::string("quantise_by ") + kName<T> + " to " + kCodeName<Q>);
  const std::vector<T> all = patterns<T>();
  const int64_t n = static_cast<int64_t>(all.size());
  Room<T> x(n);
  std::copy(all.begin(), all.end(), x.data());
  Room<uint8_t> got(n), plain(n), want(n);
  for (const float scale : kScales) {
    for (int64_t i = 0; i < n; ++i) want[i] = quotient_code<Q>(x[i], scale);
    neon::quantise_by<T, Q>(x.data(), got.data(), n, scale, false);
    portable::quantise_by<T, Q>(x.data(), plain.data(), n, scale, false);
    if constexpr (std::is_same_v<Q, E4m3fn>) {  // of NaN there are two
      for (int64_t i = 0; i < n; ++i) {
        for (uint8_t* code : {&got[i], &plain[i]}) *code = *code == 0xff ? 0x7f : *code;
      }
    }
    verdict.same("neon", got.data(), want.data(), n);
    verdict.same("portable", plain.data(), want.data(), n);
  }
}

template <class T>
float largest_of(const T* x, int64_t n) {
  double largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double magnitude = std::fabs(wide(x[i]));
    if (std::isnan(magnitude)) return NAN;
    largest = std::max(largest, magnitude);
  }
  return static_cast<float>(largest);
}

template <class T, class Q>
void check_row(Verdict& verdict, const Room<T>& x, const Room<T>& next, int64_t group) {
  const int64_t n = x.size();
  const int64_t groups = (n + group - 1) / group;
  Room<uint8_t> codes(n), want(n);
  Room<float> scales(groups), of_next(groups), next_scales(groups);
  neon::find_scales<T, Q>(x.data(), scales.data(), n, group);
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t some = std::min(group, n - g * group);
    const float largest = largest_of(x.data() + g * group, some);
    const float scale = largest / optest::kLargest<Q>;
    verdict.near("scale", g, scales[g], scale == 0 ? 1.0f : scale, 0, 0);
    for (int64_t i = g * group; i < g * group + some; ++i) want[i] = quotient_code<Q>(x[i], scales[g]);
  }
  neon::quantise_row<T, Q>(x.data(), next.data(), codes.data(), scales.data(), next_scales.data(), n,
                           group, n % 2 == 0);
  verdict.same("codes", codes.data(), want.data(), n);
  neon::find_scales<T, Q>(next.data(), of_next.data(), n, group);
  verdict.same("scales of the next row", next_scales.data(), of_next.data(), groups);
}

template <class T, class Q>
void check_dynamic() {
  Verdict verdict(std::string("find_scales, quantise_row ") + kName<T> + " to " + kCodeName<Q>);
  Random random(5);
  for (const int64_t n : kLengths) {
    for (const int64_t group : {int64_t{1}, int64_t{5}, int64_t{128}, n}) {
      Room<T> x = numbers<T>(random, n, std::pow(10.0, static_cast<double>(random.below(7) - 3)));
      const Room<T> next = numbers<T>(random, n);
      check_row<T, Q>(verdict, x, next, group);
      std::memset(x.data(), 0, static_cast<size_t>(n) * sizeof(T));
      check_row<T, Q>(verdict, x, next, group);
    }
  }
}

template <class T>
void check_largest(T) {
  Verdict verdict(std::string("largest_bits_of ") + kName<T> + " with NaN and infinity");
  Random random(6);
  for (const int64_t n : kLengths) {
    Room<T> x = numbers<T>(random, n);
    for (const double special : {0.0, HUGE_VAL, std::nan("")}) {
      if (special != 0.0) x[random.below(n)] = narrow_to<T>(special);
      const float got = bits_as<float>(neon::largest_bits_of<T>(x.data(), n));
      verdict.near("neon", n, got, largest_of(x.data(), n), 0, 0);
    }
  }
}

int main() {
  for_dtypes([](auto like) {
    using T = decltype(like);
    check_largest(like);
    for_codes([](auto code) {
      check_static<T, decltype(code)>();
      check_dynamic<T, decltype(code)>();
    });
  });
  return exit_code();
}
