// Products of mxfp4 operands. An e2m1 number times its power of two is exact in bf16 and in fp32, in which
// they are multiplied; sums are fp32. Weights are packed as [block][32 pairs of k][16 columns], the pair's
// first code in the low half, their scales as [block][2 of 32 k][16 columns].

#include "optest/gemm.inl"

constexpr int64_t kMxPackedBlock = kBlockBytes / 2;
constexpr int64_t kMxScales = kTile;  // of 32 k of a panel

// The power of two of an e8m0 code in each lane; 255 is NaN.
OPTEST_INLINE F power_of(U code) {
  const U bits = choose(exceeds(code, 0u), code << 23, U{} + (1u << 22));
  return (F)choose(exceeds(code, 254u), U{} + 0x7fc00000u, bits);
}

// The number of an e2m1 code in each lane: but for 0.5, its bits are those of fp32 in other places.
OPTEST_INLINE F decode_e2m1(U code) {
  const U size = code & 7u;
  const U normal = (size << 22) + (126u << 23);
  const U small = choose(exceeds(size, 0u), U{} + (126u << 23), U{});
  return (F)(choose(exceeds(size, 1u), normal, small) | (code & 8u) << 28);
}

// kLanes adjacent bytes.
OPTEST_INLINE U load_bytes(const uint8_t* from) {
#if defined(OPTEST_ISA_AVX512)
  return (U)_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#else
  return __builtin_convertvector(load_raw<U8>(from), U);
#endif
}

struct Mxfp4AsFp32 : Fp32Unit {
  static constexpr int64_t kPackedBlock = kMxPackedBlock;

  static void widen(const uint8_t* w, const uint8_t* scales, char* wide) {
    for (int64_t pair = 0; pair < kDepth / 2; ++pair) {
      for (int64_t c = 0; c < kTile; c += kLanes) {
        const U codes = load_bytes(w + pair * kTile + c);
        const F power = power_of(load_bytes(scales + pair / 16 * kMxScales + c));
        char* const to = wide + (pair * 2 * kTile + c) * 4;
        store_raw(to, decode_e2m1(codes & 15u) * power);
        store_raw(to + kTile * 4, decode_e2m1(codes >> 4) * power);
      }
    }
  }
};

// One row's numbers, up to `room` of them, zeros behind the last.
inline void dequantise_mx_row(const uint8_t* codes, const uint8_t* scales, int64_t bytes,
                              int64_t room, float* to) {
  constexpr float number[] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                              -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
  for (int64_t block = 0; block < bytes; block += 16) {
    const float power = power_of(U{} + scales[block / 16])[0];
    const int64_t end = block + 16 < bytes ? block + 16 : bytes;
    for (int64_t i = block; i < end; ++i) {
      to[2 * i] = number[codes[i] & 15] * power;
      to[2 * i + 1] = number[codes[i] >> 4] * power;
    }
  }
  std::memset(to + 2 * bytes, 0, static_cast<size_t>(room - 2 * bytes) * 4);
}

inline void pack_mx_panel(const uint8_t* codes, int64_t codes_row, const uint8_t* scales,
                          int64_t scales_row, int64_t columns, int64_t bytes, uint8_t* to,
                          uint8_t* powers) {
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t i = 0; i < bytes; ++i) to[i * kTile + c] = codes[c * codes_row + i];
    for (int64_t i = 0; i * 16 < bytes; ++i) powers[i * kMxScales + c] = scales[c * scales_row + i];
  }
}

// Tiles of fp32 rows that were dequantised: [row][k].
inline void pack_mx_fp32(const void* x, int64_t row_bytes, int64_t rows, int64_t depth, char* to) {
  constexpr int64_t row = kDepth * 4;
  for (int64_t i = 0; i < depth; i += kDepth, to += Fp32Unit::kBlock) {
    for (int64_t r = 0; r < kTile; ++r) {
      const char* const from = static_cast<const char*>(x) + r * row_bytes + i * 4;
      if (r < rows) {
        std::memcpy(to + r * row, from, row);
      } else {
        std::memset(to + r * row, 0, row);
      }
    }
  }
}

inline void dot_mx(const Piece& piece) { dot<Mxfp4AsFp32>(piece); }

template <class Out>
void finish_mx(const void* sums, const float* x_scale, const float* w_scale, int64_t rows,
               int64_t columns, void* out, int64_t out_row) {
  finish<float, Out>(sums, x_scale, w_scale, rows, columns, out, out_row);
}

#if defined(OPTEST_ISA_AVX512)
#include "optest/gemm_tiles.inl"

// The same rows as two tiles of bf16 a block, which is exact.
inline void pack_mx_bf16(const void* x, int64_t row_bytes, int64_t rows, int64_t depth, char* to) {
  for (int64_t i = 0; i < depth; i += kDepth / 2, to += kBlockBytes) {
    for (int64_t r = 0; r < kTile; ++r) {
      const char* const row = static_cast<const char*>(x) + r * row_bytes;
      const float* const from = reinterpret_cast<const float*>(row) + i;
      for (int64_t at = 0; at < kDepth / 2; at += kLanes) {
        const U bits = r < rows ? load_raw<U>(from + at) : U{};
        store_raw(to + r * 64 + at * 2, high_halves(bits));
      }
    }
  }
}

// bf16 of the 16 codes, twice.
struct alignas(64) Bf16OfE2m1 {
  uint16_t bits[32]{};

  constexpr Bf16OfE2m1() {
    constexpr uint16_t sizes[] = {0, 0x3f00, 0x3f80, 0x3fc0, 0x4000, 0x4040, 0x4080, 0x40c0};
    for (int code = 0; code < 32; ++code) {
      bits[code] = static_cast<uint16_t>(sizes[code % 8] | (code & 8) << 12);
    }
  }
};
inline constexpr Bf16OfE2m1 kBf16OfE2m1;

struct WidenMxfp4 {
  static constexpr int64_t kPackedBlock = kMxPackedBlock;
  static constexpr int64_t kPowers = kMxScales;

  // The exponent of the scale is added to those that are not zero.
  __m512i numbers;

  OPTEST_VBMI WidenMxfp4() { numbers = _mm512_load_si512(kBf16OfE2m1.bits); }

  struct Shared {
    const uint8_t* scales;
    __m512i added;  // to the bits of both numbers of a pair
    bool ordinary;  // nothing becomes too small or too large by its power
  };

  OPTEST_VBMI Shared shared(const uint8_t* scales) const {
    const __m128i powers = _mm_loadu_si128(reinterpret_cast<const __m128i*>(scales));
    const __m512i wide = _mm512_sub_epi32(_mm512_cvtepu8_epi32(powers), _mm512_set1_epi32(127));
    const __m512i shifted = _mm512_and_si512(_mm512_slli_epi32(wide, 7), _mm512_set1_epi32(0xffff));
    // 0 and 1 lie below bf16's normal numbers with some codes, 253 and on beyond its largest.
    const __m128i moved = _mm_sub_epi8(powers, _mm_set1_epi8(2));
    const bool ordinary =
        _mm_cmpgt_epu8_mask(moved, _mm_set1_epi8(static_cast<char>(250))) == 0;
    return {scales, _mm512_or_si512(shifted, _mm512_slli_epi32(shifted, 16)), ordinary};
  }

  OPTEST_VBMI void four(const uint8_t* w, const Shared& by, int at, __m512i (&pairs)[2]) const {
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      const U bytes = load_bytes(w + (2 * at + i) * kTile);
      pairs[i] = by.ordinary ? ordinary(bytes, by) : any(bytes, by.scales);
    }
  }

  OPTEST_VBMI __m512i ordinary(U bytes, const Shared& by) const {
    const __m512i codes = (__m512i)((bytes | bytes << 12) & 0x000f000fu);
    const __m512i found = _mm512_permutexvar_epi16(codes, numbers);
    const __mmask32 some = _mm512_test_epi16_mask(codes, _mm512_set1_epi16(7));
    return _mm512_mask_add_epi16(found, some, found, by.added);
  }

  // Not inlined: the registers it would take are those of sums.
  OPTEST_VBMI OPTEST_NOINLINE static __m512i any(U bytes, const uint8_t* scales) {
    const F power = power_of(load_bytes(scales));
    const U first = (U)(decode_e2m1(bytes & 15u) * power);
    const U second = (U)(decode_e2m1(bytes >> 4) * power);
    return (__m512i)(first >> 16 | (second & 0xffff0000u));
  }
};

OPTEST_AMX inline void amx_mx_dot(const Piece& piece) { amx_bf16_dot<WidenMxfp4>(piece); }
OPTEST_BF16 inline void pair_mx_dot(const Piece& piece) { pair_bf16_dot<WidenMxfp4>(piece); }
#endif
