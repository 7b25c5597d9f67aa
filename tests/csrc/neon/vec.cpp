// The words of vec.inl that NEON has intrinsics for, against their definition in scalar arithmetic.

#include "check.h"

#define OPTEST_KERNELS "optest/vec.inl"
#include "optest/each_isa.h"

using namespace check;
namespace neon = optest::neon;
constexpr int kLanes = neon::kLanes;

float any_float(Random& random) {
  const float value = bits_as<float>(random.bits());
  return random.below(4) ? static_cast<float>(random.normal()) : value;
}

void check_fp16_to_fp32() {
  Verdict verdict("load fp16, every pattern");
  for (uint32_t first = 0; first < 65536; first += kLanes) {
    Fp16 from[kLanes];
    float want[kLanes], got[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      from[i].bits = static_cast<uint16_t>(first + static_cast<uint32_t>(i));
      want[i] = static_cast<float>(wide(from[i]));
    }
    neon::store_raw(got, neon::load(from));
    verdict.same("neon", got, want, kLanes);
    neon::store_raw(got, optest::portable::load(from));
    verdict.same("portable", got, want, kLanes);
  }
}

// Every fp16, what is half-way to the next, and the fp32 numbers on either side of these.
void check_fp32_to_fp16() {
  Verdict verdict("round to fp16, ties and neighbours");
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const double value = wide(Fp16{static_cast<uint16_t>(bits)});
    const double next = wide(Fp16{static_cast<uint16_t>(bits + 1)});
    const float tie = static_cast<float>(std::isfinite(next) ? (value + next) / 2 : value);
    const float from[kLanes] = {static_cast<float>(value), tie, std::nextafterf(tie, INFINITY),
                                std::nextafterf(tie, -INFINITY)};
    Fp16 want[kLanes], got[kLanes];
    for (int i = 0; i < kLanes; ++i) want[i] = narrow_to<Fp16>(from[i]);
    neon::store_raw(got, neon::round_to_fp16(neon::load(from)));
    verdict.same("neon", got, want, kLanes);
    neon::store_raw(got, optest::portable::round_to_fp16(optest::portable::load(from)));
    verdict.same("portable", got, want, kLanes);
  }
}

void check_fma() {
  Verdict verdict("fma, fms, fnma: rounded once, signs");
  Random random(1);
  for (int round = 0; round < 20000; ++round) {
    float a[kLanes], b[kLanes], c[kLanes], got[kLanes], want[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      a[i] = any_float(random);
      b[i] = any_float(random);
      c[i] = random.below(2) ? any_float(random) : -a[i] * b[i];  // leaves only what rounding took
    }
    const neon::F va = neon::load(a), vb = neon::load(b), vc = neon::load(c);
    neon::store_raw(got, neon::fma(va, vb, vc));
    for (int i = 0; i < kLanes; ++i) want[i] = std::fma(a[i], b[i], c[i]);
    verdict.same("fma", got, want, kLanes);
    neon::store_raw(got, neon::fms(va, vb, vc));
    for (int i = 0; i < kLanes; ++i) want[i] = std::fma(a[i], b[i], -c[i]);
    verdict.same("fms", got, want, kLanes);
    neon::store_raw(got, neon::fnma(va, vb, vc));
    for (int i = 0; i < kLanes; ++i) want[i] = std::fma(-a[i], b[i], c[i]);
    verdict.same("fnma", got, want, kLanes);
  }
}

void check_limits() {
  Verdict verdict("at_most, at_least keep NaN; larger");
  Random random(2);
  for (int round = 0; round < 20000; ++round) {
    float a[kLanes], got[kLanes], want[kLanes];
    for (float& value : a) value = random.below(8) ? any_float(random) : NAN;
    const float limit = static_cast<float>(random.normal());
    neon::store_raw(got, neon::at_most(neon::load(a), neon::splat(limit)));
    for (int i = 0; i < kLanes; ++i) want[i] = a[i] > limit ? limit : a[i];
    verdict.same("at_most", got, want, kLanes);
    neon::store_raw(got, neon::at_least(neon::load(a), neon::splat(limit)));
    for (int i = 0; i < kLanes; ++i) want[i] = a[i] < limit ? limit : a[i];
    verdict.same("at_least", got, want, kLanes);
    uint32_t x[kLanes], y[kLanes], z[kLanes], most[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      x[i] = random.bits() >> 1;
      y[i] = random.bits() >> 1;
      most[i] = std::max(x[i], y[i]);
    }
    neon::store_raw(z, neon::larger(neon::load_raw<neon::U>(x), neon::load_raw<neon::U>(y)));
    verdict.same("larger", z, most, kLanes);
  }
}

template <class T>
void check_rows(T) {
  Verdict verdict(std::string("rows of ") + kName<T> + ": map, largest |x|, sum of squares, parts");
  Random random(3);
  for (const int64_t n : kLengths) {
    const Room<T> x = numbers<T>(random, n);
    Room<T> out(n), want(n);
    double squares = 0, largest = 0;
    for (int64_t i = 0; i < n; ++i) {
      squares += wide(x[i]) * wide(x[i]);
      largest = std::max(largest, std::fabs(wide(x[i])));
      want[i] = narrow_to<T>(wide(x[i]) * 2.0 + 1.0);
    }
    const auto affine = [](neon::F v) OPTEST_LAMBDA {
      return neon::fma(v, neon::splat(2.0f), neon::splat(1.0f));
    };
    for (const bool past_caches : {false, true}) {
      neon::map<T>(out.data(), n, past_caches, affine, static_cast<const T*>(x.data()));
      verdict.same("map", out.data(), want.data(), n);
    }
    const uint32_t bits = neon::reduced<neon::LargestBits<T>>(x.data(), n);
    verdict.near("largest", n, bits_as<float>(bits), largest, 0, 0);
    verdict.near("squares", n, neon::reduced<neon::SumOfSquares<T>>(x.data(), n), squares,
                 static_cast<double>(n + 8) * 0x1p-24, 0);
    x[random.below(n)] = narrow_to<T>(NAN);
    const uint32_t nan = neon::reduced<neon::LargestBits<T>>(x.data(), n);
    verdict.near("largest of NaN", n, bits_as<float>(nan), NAN, 0, 0);
  }
}

int main() {
  check_fp16_to_fp32();
  check_fp32_to_fp16();
  check_fma();
  check_limits();
  for_dtypes([](auto like) { check_rows(like); });
  return exit_code();
}
