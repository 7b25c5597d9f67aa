// Products of 8-bit matrices, piece by piece (optest/gemm_piece.h). Sums of int8 are exact int32; e4m3
// is widened, which is exact, and summed in fp32.

#include "optest/vec.inl"
#include "optest/codes.inl"
#include "optest/gemm.inl"

// ---- weights --------------------------------------------------------------------------------------

// One panel: up to 16 rows of w, zeros where there are none, as [block][4 k][16 columns][k of 4].
inline void pack_panel(const uint8_t* w, int64_t row_bytes, int64_t columns, int64_t k,
                       uint8_t* to) {
  const int64_t blocks = (k + kDepth - 1) / kDepth;
  std::memset(to, 0, static_cast<size_t>(blocks * kBlockBytes));
  for (int64_t c = 0; c < columns; ++c) {
    const uint8_t* const row = w + c * row_bytes;
    for (int64_t i = 0; i < k; i += 4) {
      const int64_t n = k - i < 4 ? k - i : 4;
      std::memcpy(to + i / 4 * kDepth + c * 4, row + i, static_cast<size_t>(n));
    }
  }
}

// ---- int8 -----------------------------------------------------------------------------------------

// Products of 16-bit neighbours, summed in pairs.
OPTEST_INLINE I multiply_pairs(I16 a, I16 b) {
#if defined(OPTEST_ISA_AVX512)
  return (I)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif defined(OPTEST_ISA_AVX2)
  return (I)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#else
  const I a_low = (I)((U)a << 16) >> 16;
  const I b_low = (I)((U)b << 16) >> 16;
  return a_low * b_low + ((I)a >> 16) * ((I)b >> 16);
#endif
}

OPTEST_INLINE I splat_bits(const void* from) {
  int32_t bits;
  std::memcpy(&bits, from, sizeof bits);
  return bits - I{};
}

// Even and odd bytes as 16-bit numbers; x waits as such: four k of a row as k0 k2 k1 k3.
struct PairsOfInt8 {
  using Sum = int32_t;
  using Vector = I;
  static constexpr int64_t kPackedBlock = kBlockBytes;
  static constexpr int64_t kBlock = 2 * kBlockBytes;
  static constexpr int64_t kWideBlock = 0;
  static constexpr int64_t kSteps = kDepth / 4;

  static void pack_row(const uint8_t* from, char* block, int64_t row) {
    int16_t to[kDepth];
    for (int64_t i = 0; i < kDepth; i += 4) {
      to[i] = static_cast<int8_t>(from[i]);
      to[i + 1] = static_cast<int8_t>(from[i + 2]);
      to[i + 2] = static_cast<int8_t>(from[i + 1]);
      to[i + 3] = static_cast<int8_t>(from[i + 3]);
    }
    std::memcpy(block + row * sizeof to, to, sizeof to);
  }

  template <int kRows>
  static OPTEST_INLINE void step(I (&sums)[kRows], const char* x, const void* w, int64_t at,
                                 int64_t column) {
    const U bytes = load_raw<U>(static_cast<const char*>(w) + at * kDepth + column * 4);
    const I16 even = (I16)(bytes << 8) >> 8;
    const I16 odd = (I16)bytes >> 8;
    for (int r = 0; r < kRows; ++r) {
      const char* const four = x + r * (kBlock / kTile) + at * 8;
      sums[r] += multiply_pairs(even, (I16)splat_bits(four));
      sums[r] += multiply_pairs(odd, (I16)splat_bits(four + 4));
    }
  }
};

// ---- e4m3, widened to fp32 ------------------------------------------------------------------------

struct Fp8AsFp32 : Fp32Unit {
  static constexpr int64_t kPackedBlock = kBlockBytes;

  static void pack_row(const uint8_t* from, char* block, int64_t row) {
    char* const to = block + row * kDepth * 4;
    for (int64_t i = 0; i < kDepth; i += kLanes) {
      U codes{};
      for (int lane = 0; lane < kLanes; ++lane) codes[lane] = from[i + lane];
      store_raw(to + i * 4, decode(codes, E4m3fn{}));
    }
  }

  static void widen(const uint8_t* w, const uint8_t*, char* wide) {
    for (int64_t four = 0; four < kDepth / 4; ++four) {
      for (int64_t c = 0; c < kTile; c += kLanes) {
        const U codes = load_raw<U>(w + four * kDepth + c * 4);
        for (int i = 0; i < 4; ++i) {
          const F numbers = decode(codes >> (8 * i) & 0xffu, E4m3fn{});
          store_raw(wide + ((four * 4 + i) * kTile + c) * 4, numbers);
        }
      }
    }
  }
};

// ---- rows of x -------------------------------------------------------------------------------------

// One tile of x, rows and depth filled up with zeros.
template <class Unit>
void pack_x(const void* x, int64_t row_bytes, int64_t rows, int64_t depth, char* to) {
  for (int64_t i = 0; i < depth; i += kDepth, to += Unit::kBlock) {
    const int64_t n = depth - i < kDepth ? depth - i : kDepth;
    for (int64_t r = 0; r < kTile; ++r) {
      const uint8_t* const from = static_cast<const uint8_t*>(x) + r * row_bytes + i;
      if (r < rows && n == kDepth) {
        Unit::pack_row(from, to, r);
      } else {
        uint8_t padded[kDepth] = {};
        if (r < rows) std::memcpy(padded, from, static_cast<size_t>(n));
        Unit::pack_row(padded, to, r);
      }
    }
  }
}

// What every CPU of this instruction set can do.
inline void pack_int8(const void* x, int64_t row_bytes, int64_t rows, int64_t depth, char* to) {
  pack_x<PairsOfInt8>(x, row_bytes, rows, depth, to);
}
inline void pack_fp8(const void* x, int64_t row_bytes, int64_t rows, int64_t depth, char* to) {
  pack_x<Fp8AsFp32>(x, row_bytes, rows, depth, to);
}
inline void dot_int8(const Piece& piece) { dot<PairsOfInt8>(piece); }
inline void dot_fp8(const Piece& piece) { dot<Fp8AsFp32>(piece); }

// ---- units of AVX-512 -----------------------------------------------------------------------------

#if defined(OPTEST_ISA_AVX512)
#include "gemm_quant_units.inl"
#endif