// Blocks of e2m1 codes with a shared power of two: codes and scales equal the definition's in every bit,
// products of such blocks against fp64.

#include "check.h"
#include "optest/gemm_piece.h"

#define OPTEST_KERNELS "../../mx_kernels.inl"
#include "optest/each_isa.h"

using namespace check;
namespace neon = optest::neon;

constexpr double kNumbers[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

// The e2m1 code nearest to a number, ties to the even one, saturated.
uint8_t nearest_code(double value) {
  const double magnitude = std::fabs(value);
  int best = 0;
  for (int i = 1; i < 8; ++i) {
    const double here = std::fabs(magnitude - kNumbers[i]);
    const double before = std::fabs(magnitude - kNumbers[best]);
    if (here < before || (here == before && i % 2 == 0)) best = i;
  }
  return static_cast<uint8_t>(best | (std::signbit(value) ? 8 : 0));
}

// Of a block: two below the largest magnitude's exponent, which is the largest of e2m1.
template <class T>
uint8_t scale_of(const T* x, int64_t n) {
  int largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = bits_as<uint32_t>(static_cast<float>(wide(x[i])));
    largest = std::max(largest, static_cast<int>(bits >> 23 & 255));
  }
  return static_cast<uint8_t>(largest == 255 ? 255 : std::max(largest - 2, 0));
}

template <class T>
void judge(Verdict& verdict, const Room<T>& x) {
  const int64_t k = x.size();
  const int64_t blocks = (k + 31) / 32;
  Room<uint8_t> codes((k + 1) / 2), scales(blocks);
  neon::quantise_mx_row<T>(x.data(), codes.data(), scales.data(), k);
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t begin = block * 32, end = std::min(k, begin + 32);
    const uint8_t scale = scale_of(x.data() + begin, end - begin);
    verdict.equal("scale", scales[block], scale);
    for (int64_t i = begin; i < end; ++i) {
      const uint8_t want = scale == 255 ? 0 : nearest_code(std::ldexp(wide(x[i]), 127 - scale));
      verdict.equal("code", codes[i / 2] >> (i % 2 * 4) & 15, want);
    }
  }
  if (k % 2 != 0) verdict.equal("padding", codes[k / 2] >> 4, 0);
}

template <class T>
void check_rows(T) {
  Verdict verdict(std::string("quantise_mx_row ") + kName<T>);
  Random random(24);
  for (const int64_t k : kLengths) {
    for (const double scale : {1.0, 1e-3, 3e4}) judge(verdict, numbers<T>(random, k, scale));
    judge(verdict, numbers<T>(random, k, 0.0));
    for (const double special : {HUGE_VAL, std::nan("")}) {
      const Room<T> x = numbers<T>(random, k);
      x[random.below(k)] = narrow_to<T>(special);
      judge(verdict, x);
    }
  }
}

// Every pattern of 16 bits, each in a block of its own and beside larger ones.
template <class T>
void check_patterns() {
  Verdict verdict(std::string("quantise_mx_row ") + kName<T> + ", every pattern");
  const Room<T> x(65536);
  for (int64_t stride : {1, 257, 8191}) {
    for (int64_t i = 0; i < 65536; ++i) x[i].bits = static_cast<uint16_t>(i * stride);
    judge(verdict, x);
  }
}

struct Rows {
  Rows(Random& random, int64_t count, int64_t bytes_of_row)
      : bytes(bytes_of_row), scales_row((bytes + 15) / 16), codes(count * bytes), scales(count * scales_row) {
    for (int64_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(random.bits());
    for (int64_t i = 0; i < scales.size(); ++i) {
      scales[i] = static_cast<uint8_t>(120 + random.below(12));
    }
  }
  double at(int64_t row, int64_t i) const {
    const uint8_t code = codes[row * bytes + i / 2] >> (i % 2 * 4) & 15;
    const double size = std::ldexp(kNumbers[code & 7], scales[row * scales_row + i / 32] - 127);
    return code & 8 ? -size : size;
  }

  int64_t bytes, scales_row;
  Room<uint8_t> codes, scales;
};

void check_dot() {
  using optest::kDepth, optest::kTile, optest::kTileSums;
  Verdict verdict("dequantise_mx_row, pack_mx_panel, dot_mx");
  Random random(40);
  constexpr int64_t kShapes[][3] = {{1, 1, 1}, {2, 16, 32}, {3, 13, 33}, {17, 7, 100}, {32, 16, 64}};
  for (const auto& [rows, columns, bytes] : kShapes) {
    const Rows x(random, rows, bytes), w(random, columns, bytes);
    const int64_t blocks = (2 * bytes + kDepth - 1) / kDepth, room = blocks * kDepth;
    const Room<float> numbers(rows * room), sums(optest::kPieceSums);
    for (int64_t r = 0; r < rows; ++r) {
      neon::dequantise_mx_row(x.codes.data() + r * bytes, x.scales.data() + r * x.scales_row, bytes,
                              room, numbers.data() + r * room);
      for (int64_t i = 0; i < room; ++i) {
        verdict.near("dequantised", i, numbers[r * room + i], i < 2 * bytes ? x.at(r, i) : 0, 0, 0);
      }
    }
    const int64_t tile = blocks * neon::Fp32Unit::kBlock;
    const Room<char> tiles((rows + kTile - 1) / kTile * tile);
    const Room<char> wide(blocks * neon::Fp32Unit::kWideBlock);
    for (int64_t r = 0; r < rows; r += kTile) {
      neon::pack_mx_fp32(numbers.data() + r * room, room * 4, std::min(kTile, rows - r), 2 * bytes,
                         tiles.data() + r / kTile * tile);
    }
    const Room<uint8_t> panel(blocks * neon::kMxPackedBlock), powers(blocks * optest::kScalesPerBlock);
    std::fill(panel.data(), panel.data() + panel.size(), uint8_t{0});
    std::fill(powers.data(), powers.data() + powers.size(), uint8_t{0});
    neon::pack_mx_panel(w.codes.data(), bytes, w.scales.data(), w.scales_row, columns, bytes,
                        panel.data(), powers.data());
    neon::dot_mx({tiles.data(), tile, panel.data(), 0, powers.data(), 0, blocks, rows, 1, false,
                  sums.data(), wide.data(), 0, true});
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < kTile; ++c) {
        double sum = 0, sizes = 0;
        for (int64_t i = 0; c < columns && i < 2 * bytes; ++i) {
          sum += x.at(r, i) * w.at(c, i);
          sizes += std::fabs(x.at(r, i) * w.at(c, i));
        }
        const int64_t at = r / kTile * 2 * kTileSums + r % kTile * kTile + c;
        verdict.near("sums", at, sums[at], sum, 0, sizes * static_cast<double>(2 * bytes) * 0x1p-24);
      }
    }
  }
}

void check_powers() {
  Verdict verdict("power_of, every e8m0 code");
  for (uint32_t code = 0; code < 256; ++code) {
    const double want = code == 255 ? NAN : std::ldexp(1.0, static_cast<int>(code) - 127);
    verdict.near("power", code, neon::power_of(neon::U{} + code)[0], want, 0, 0);
  }
}

int main() {
  check_powers();
  check_dot();
  for_dtypes([](auto like) { check_rows(like); });
  check_patterns<Bf16>();
  check_patterns<Fp16>();
  return exit_code();
}
