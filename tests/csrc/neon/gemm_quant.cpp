// Products of 8-bit matrices: int8 sums exact, e4m3 against fp64, by pieces of ragged rows and depth.

#include "check.h"
#include "codes.h"
#include "optest/gemm_piece.h"

#define OPTEST_KERNELS "../../gemm_quant_kernels.inl"
#include "optest/each_isa.h"

using namespace check;
using namespace optest;

double value_of(uint8_t code, bool is_int8) {
  return is_int8 ? static_cast<int8_t>(code) : wide(E4m3fn{code});
}

struct Shape {
  int64_t rows, panels, depth;
};
constexpr Shape kShapes[] = {{1, 1, 1},  {2, 1, 64},  {3, 2, 65},   {5, 1, 127},
                             {16, 2, 64}, {17, 2, 200}, {31, 1, 300}, {32, 2, 129}};

Room<uint8_t> codes(Random& random, int64_t n, bool is_int8) {
  Room<uint8_t> made(n);
  for (int64_t i = 0; i < n; ++i) {
    made[i] = static_cast<uint8_t>(random.bits());
    if (is_int8 && random.below(8) == 0) made[i] = 0x80;  // -128, whose square is the largest
    if (!is_int8 && (made[i] & 0x7f) == 0x7f) made[i] = 0;
  }
  return made;
}

// Rows and weights as the kernels pack them, and all that a Piece points to.
template <class Sum>
struct Packed {
  static constexpr bool kInt8 = std::is_same_v<Sum, int32_t>;
  static constexpr int64_t kXBlock = kInt8 ? neon::PairsOfInt8::kBlock : neon::Fp8AsFp32::kBlock;
  static constexpr int64_t kWide = neon::Fp8AsFp32::kWideBlock;

  Packed(const Shape& shape, const Room<uint8_t>& x, const Room<uint8_t>& w)
      : blocks((shape.depth + kDepth - 1) / kDepth),
        x_tiles((shape.rows + kTile - 1) / kTile * blocks * kXBlock),
        panels(shape.panels * blocks * kBlockBytes),
        wide(shape.panels * blocks * kWide),
        sums(kPieceSums) {
    for (int64_t r = 0; r < shape.rows; r += kTile) {
      (kInt8 ? neon::pack_int8 : neon::pack_fp8)(x.data() + r * shape.depth, shape.depth,
                                                 std::min(kTile, shape.rows - r), shape.depth,
                                                 x_tiles.data() + r / kTile * blocks * kXBlock);
    }
    for (int64_t p = 0; p < shape.panels; ++p) {
      const int64_t columns = p + 1 == shape.panels ? kTile - 3 : kTile;
      neon::pack_panel(w.data() + p * kTile * shape.depth, shape.depth, columns, shape.depth,
                       panels.data() + p * blocks * kBlockBytes);
    }
  }

  Piece piece(const Shape& shape, bool resume) const {
    return {x_tiles.data(), blocks * kXBlock, panels.data(), blocks * kBlockBytes, nullptr, 0,
            blocks, shape.rows, shape.panels, resume, sums.data(), wide.data(), blocks * kWide, true};
  }

  int64_t blocks;
  Room<char> x_tiles;
  Room<uint8_t> panels;
  Room<char> wide;
  Room<Sum> sums;
};

template <class Sum>
void check_dot(const char* name) {
  constexpr bool is_int8 = std::is_same_v<Sum, int32_t>;
  Verdict verdict(name);
  Random random(27);
  for (const Shape& shape : kShapes) {
    const Room<uint8_t> x = codes(random, shape.rows * shape.depth, is_int8);
    const Room<uint8_t> w = codes(random, (shape.panels * kTile - 3) * shape.depth, is_int8);
    const Packed<Sum> packed(shape, x, w);
    for (const bool resume : {false, true}) {  // the second pass doubles the sums
      (is_int8 ? neon::dot_int8 : neon::dot_fp8)(packed.piece(shape, resume));
      for (int64_t r = 0; r < shape.rows; ++r) {
        for (int64_t c = 0; c < shape.panels * kTile; ++c) {
          double sum = 0, size = 0;
          for (int64_t i = 0; c < shape.panels * kTile - 3 && i < shape.depth; ++i) {
            const double product = value_of(x[r * shape.depth + i], is_int8) *
                                   value_of(w[c * shape.depth + i], is_int8);
            sum += product * (resume ? 2 : 1);
            size += std::fabs(product) * (resume ? 2 : 1);
          }
          const int64_t at = (r / kTile * 2 + c / kTile) * kTileSums + r % kTile * kTile + c % kTile;
          const double rounding = is_int8 ? 0.0 : static_cast<double>(2 * shape.depth) * 0x1p-24;
          verdict.near("sums", at, static_cast<double>(packed.sums[at]), sum, 0, size * rounding);
        }
      }
    }
  }
}

template <class Sum, class Out>
void check_finish(const char* name) {
  Verdict verdict(std::string("finish, add_scaled ") + name + " to " + kName<Out>);
  Random random(28);
  const Room<Sum> sums(kTileSums);
  for (int64_t i = 0; i < kTileSums; ++i) sums[i] = static_cast<Sum>(random.normal() * 10000);
  const Room<float> x_scale = numbers<float>(random, kTile, 1e-2);
  for (const int64_t columns : {1, 3, 4, 7, 13, 16}) {
    const Room<float> w_scale = numbers<float>(random, columns, 1e-2);
    const int64_t rows = columns;
    const Room<Out> out(rows * columns);
    neon::finish<Sum, Out>(sums.data(), x_scale.data(), w_scale.data(), rows, columns, out.data(),
                           columns * static_cast<int64_t>(sizeof(Out)));
    const Room<float> totals = numbers<float>(random, kTileSums);
    const Room<float> before(totals);
    neon::add_scaled<Sum>(sums.data(), totals.data(), rows, x_scale.data(), 1, w_scale[0]);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        const double sum = static_cast<double>(sums[r * kTile + c]);
        verdict.near("finish", c, wide(out[r * columns + c]),
                     sum * double{x_scale[r]} * double{w_scale[c]},
                     1.001 * kHalfStep<Out> + 0x1p-22, 0x1p-24);
        verdict.near("add_scaled", c, totals[r * kTile + c],
                     double{before[r * kTile + c]} + sum * double{x_scale[r]} * double{w_scale[0]},
                     0x1p-22, 1e-6);
      }
    }
  }
}

void check_decode() {
  Verdict verdict("decode e4m3fn, every code");
  for (uint32_t code = 0; code < 256; ++code) {
    verdict.near("code", code, neon::decode(neon::U{} + code, E4m3fn{})[0],
                 wide(E4m3fn{static_cast<uint8_t>(code)}), 0, 0);
  }
}

int main() {
  check_decode();
  check_dot<int32_t>("dot_int8");
  check_dot<float>("dot_fp8");
  for_dtypes([](auto like) {
    check_finish<int32_t, decltype(like)>("int32");
    check_finish<float, decltype(like)>("fp32");
  });
  return exit_code();
}
