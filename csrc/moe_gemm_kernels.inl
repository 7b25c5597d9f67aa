// Products of experts: of 8 bits as gemm_quant_kernels.inl has them, and of bf16, fp16 or fp32 numbers,
// widened to fp32. Weights are packed as blocks of 64 k by 16 columns: [k][16], bf16 as
// [pair of k][16][2].

#include "gemm_quant_kernels.inl"

template <class T>
constexpr bool kInPairs = std::is_same_v<T, Bf16>;

// Up to 16 rows of w, zeros where there are none.
template <class T>
void pack_float_panel(const void* w, int64_t row_bytes, int64_t columns, int64_t k, void* to) {
  constexpr int64_t together = kInPairs<T> ? 2 : 1;
  const int64_t depth = (k + kDepth - 1) / kDepth * kDepth;
  std::memset(to, 0, static_cast<size_t>(depth * kTile) * sizeof(T));
  for (int64_t c = 0; c < columns; ++c) {
    const char* const row = static_cast<const char*>(w) + c * row_bytes;
    for (int64_t i = 0; i < k; ++i) {
      T* const place =
          static_cast<T*>(to) + (i / together * kTile + c) * together + i % together;
      std::memcpy(place, row + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    }
  }
}

template <class T>
struct FloatAsFp32 : Fp32Unit {
  static constexpr int64_t kPackedBlock = kBlockBytes * static_cast<int64_t>(sizeof(T));

  static void pack_row(const T* from, char* block, int64_t row) {
    char* const to = block + row * kDepth * 4;
    for (int64_t i = 0; i < kDepth; i += kLanes) store_raw(to + i * 4, load(from + i));
  }

  static void widen(const uint8_t* w, const uint8_t*, char* wide) {
    if constexpr (kInPairs<T>) {
      for (int64_t pair = 0; pair < kDepth / 2; ++pair) {
        for (int64_t c = 0; c < kTile; c += kLanes) {
          const U both = load_raw<U>(w + (pair * kTile + c) * 4);
          char* const to = wide + (pair * 2 * kTile + c) * 4;
          store_raw(to, both << 16);
          store_raw(to + kTile * 4, both & 0xffff0000u);
        }
      }
    } else {
      const T* const from = reinterpret_cast<const T*>(w);
      for (int64_t i = 0; i < kDepth * kTile; i += kLanes) store_raw(wide + i * 4, load(from + i));
    }
  }
};

// One tile of x, rows and depth filled up with zeros.
template <class T, class Unit>
void pack_float_x(const void* x, int64_t row_bytes, int64_t rows, int64_t depth, char* to) {
  for (int64_t i = 0; i < depth; i += kDepth, to += Unit::kBlock) {
    const int64_t n = depth - i < kDepth ? depth - i : kDepth;
    for (int64_t r = 0; r < kTile; ++r) {
      T padded[kDepth] = {};
      const char* const from = static_cast<const char*>(x) + r * row_bytes;
      if (r < rows) {
        std::memcpy(padded, from + i * static_cast<int64_t>(sizeof(T)),
                    static_cast<size_t>(n) * sizeof(T));
      }
      Unit::pack_row(padded, to, r);
    }
  }
}

template <class T>
void pack_fp32(const void* x, int64_t row_bytes, int64_t rows, int64_t depth, char* to) {
  pack_float_x<T, FloatAsFp32<T>>(x, row_bytes, rows, depth, to);
}
template <class T>
void dot_fp32(const Piece& piece) {
  dot<FloatAsFp32<T>>(piece);
}

// ---- what follows the products --------------------------------------------------------------------

// out = sum of weights[s] * rows[s], the rows `n` apart; those of no expert are left out.
template <class Out>
void add_weighted(const float* rows, const float* weights, const int32_t* ids, int64_t topk,
                  int64_t experts, int64_t n, void* out) {
  Out* const to = static_cast<Out*>(out);
  for (int64_t i = 0; i < n; i += kLanes) {
    const int64_t here = n - i < kLanes ? n - i : kLanes;
    F total{};
    for (int64_t s = 0; s < topk; ++s) {
      if (ids[s] < 0 || ids[s] >= experts) continue;
      const float* const from = rows + s * n + i;
      const F value = here == kLanes ? load(from) : load_part(from, here);
      total = fma(splat(weights[s]), value, total);
    }
    store_part(to + i, total, here);
  }
}

// ---- pairs of bf16, AMX ---------------------------------------------------------------------------

#if defined(OPTEST_ISA_AVX512)
struct Bf16Rows {
  static constexpr int64_t kBlock = kBf16Block;

  // The first 32 k of all rows, then the others.
  static void pack_row(const Bf16* from, char* block, int64_t row) {
    std::memcpy(block + row * 64, from, 64);
    std::memcpy(block + kBlockBytes + row * 64, from + kDepth / 2, 64);
  }
};

// Packed as the tiles want them: copied side by side, so that one loop does for all weights.
struct KeepBf16 {
  static constexpr int64_t kPackedBlock = kBf16Block;
  static constexpr int64_t kPowers = 0;

  struct Shared {};
  OPTEST_VBMI Shared shared(const uint8_t*) const { return {}; }

  OPTEST_VBMI void four(const uint8_t* w, Shared, int at, __m512i (&pairs)[2]) const {
    pairs[0] = _mm512_loadu_si512(w + at * 128);
    pairs[1] = _mm512_loadu_si512(w + at * 128 + 64);
  }
};

inline void pack_bf16(const void* x, int64_t row_bytes, int64_t rows, int64_t depth, char* to) {
  pack_float_x<Bf16, Bf16Rows>(x, row_bytes, rows, depth, to);
}
OPTEST_AMX inline void amx_keep_dot(const Piece& piece) { amx_bf16_dot<KeepBf16>(piece); }
OPTEST_BF16 inline void pair_keep_dot(const Piece& piece) { pair_bf16_dot<KeepBf16>(piece); }
#endif
