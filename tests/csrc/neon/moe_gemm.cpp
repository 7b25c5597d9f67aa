// Products of experts in bf16, fp16 and fp32, and the sum of what the experts give, against fp64.

#include "check.h"
#include "optest/gemm_piece.h"

#define OPTEST_KERNELS "../../moe_gemm_kernels.inl"
#include "optest/each_isa.h"

using namespace check;
using namespace optest;

struct Shape {
  int64_t rows, columns, depth;
};
constexpr Shape kShapes[] = {{1, 1, 1},    {2, 16, 64},  {3, 13, 65},  {5, 7, 127},
                             {16, 16, 64}, {17, 5, 200}, {32, 16, 129}};

template <class T>
void check_dot(T) {
  Verdict verdict(std::string("pack_float_panel, pack_fp32, dot_fp32 ") + kName<T>);
  constexpr int64_t x_block = neon::FloatAsFp32<T>::kBlock;
  constexpr int64_t w_block = neon::FloatAsFp32<T>::kPackedBlock;
  constexpr int64_t wide_block = neon::FloatAsFp32<T>::kWideBlock;
  constexpr int64_t size = sizeof(T);
  Random random(37);
  for (const Shape& shape : kShapes) {
    const int64_t blocks = (shape.depth + kDepth - 1) / kDepth;
    const Room<T> x = numbers<T>(random, shape.rows * shape.depth);
    const Room<T> w = numbers<T>(random, shape.columns * shape.depth);
    Room<char> tiles((shape.rows + kTile - 1) / kTile * blocks * x_block);
    const Room<uint8_t> panel(blocks * w_block);
    const Room<char> wide_panel(blocks * wide_block);
    const Room<float> sums(kPieceSums);
    for (int64_t r = 0; r < shape.rows; r += kTile) {
      neon::pack_fp32<T>(x.data() + r * shape.depth, shape.depth * size,
                         std::min(kTile, shape.rows - r), shape.depth,
                         tiles.data() + r / kTile * blocks * x_block);
    }
    neon::pack_float_panel<T>(w.data(), shape.depth * size, shape.columns, shape.depth, panel.data());
    neon::dot_fp32<T>({tiles.data(), blocks * x_block, panel.data(), 0, nullptr, 0, blocks, shape.rows,
                       1, false, sums.data(), wide_panel.data(), 0, true});
    for (int64_t r = 0; r < shape.rows; ++r) {
      for (int64_t c = 0; c < kTile; ++c) {
        double sum = 0, sizes = 0;
        for (int64_t i = 0; c < shape.columns && i < shape.depth; ++i) {
          const double product = wide(x[r * shape.depth + i]) * wide(w[c * shape.depth + i]);
          sum += product;
          sizes += std::fabs(product);
        }
        const int64_t at = r / kTile * 2 * kTileSums + r % kTile * kTile + c;
        verdict.near("sums", at, sums[at], sum, 0,
                     sizes * static_cast<double>(shape.depth) * 0x1p-24);
      }
    }
  }
}

template <class T>
void check_add(T) {
  Verdict verdict(std::string("add_weighted ") + kName<T>);
  Random random(38);
  constexpr int64_t topk = 4, experts = 8;
  const int32_t ids[topk] = {3, -1, 8, 0};  // the second and the third are of no expert
  for (const int64_t n : kLengths) {
    Room<float> rows = numbers<float>(random, topk * n);
    const Room<float> weights = numbers<float>(random, topk);
    for (int64_t i = n; i < 3 * n; ++i) rows[i] = NAN;
    const Room<T> out(n);
    neon::add_weighted<T>(rows.data(), weights.data(), ids, topk, experts, n, out.data());
    for (int64_t i = 0; i < n; ++i) {
      const double want = double{weights[0]} * double{rows[i]} +
                          double{weights[3]} * double{rows[3 * n + i]};
      verdict.near("out", i, wide(out[i]), want, 1.001 * kHalfStep<T>, 5e-7);
    }
  }
}

int main() {
  for_dtypes([](auto like) {
    check_dot(like);
    check_add(like);
  });
  return exit_code();
}
