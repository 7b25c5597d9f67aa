// VNNI, pairs of bf16 and AMX on operands of 8 bits. Read by gemm_quant_kernels.inl, once.

#include "optest/gemm_tiles.inl"
#include "optest/codes_as_bf16.inl"

// ---- VNNI -----------------------------------------------------------------------------------------

// The instruction takes x without a sign: it waits as x + 128, and 128 times the sum of the weights is
// taken off, which the same instruction counts. All sums are exact modulo 2^32, so the result is.
struct VnniInt8 {
  using Sum = int32_t;
  static constexpr int64_t kBlock = kBlockBytes;

  static void pack_row(const uint8_t* from, char* block, int64_t row) {
    const __m512i signs = _mm512_set1_epi8(static_cast<char>(0x80));
    const __m512i moved = _mm512_xor_si512(_mm512_loadu_si512(from), signs);
    _mm512_storeu_si512(block + row * kDepth, moved);
  }
};

// The sums of some rows and the panels, kTileSums apart.
template <int kRows, int kPanels>
OPTEST_VNNI inline void vnni_rows(const char* x, const uint8_t* w, int64_t w_panel, int64_t blocks,
                                  int32_t* sums, bool resume) {
  __m512i total[kPanels][kRows];
  __m512i excess[kPanels];
#pragma GCC unroll 2
  for (int p = 0; p < kPanels; ++p) {
    excess[p] = _mm512_setzero_si512();
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const int32_t* const from = sums + p * kTileSums + r * kTile;
      total[p][r] = resume ? _mm512_loadu_si512(from) : _mm512_setzero_si512();
    }
  }
  const __m512i offset = _mm512_set1_epi32(static_cast<int>(0x80808080u));
  for (int64_t b = 0; b < blocks; ++b, x += VnniInt8::kBlock, w += kBlockBytes) {
#pragma GCC unroll 2
    for (int p = 0; p < kPanels; ++p) __builtin_prefetch(w + p * w_panel + 8 * kBlockBytes);
    for (int at = 0; at < kTile; ++at) {
      __m512i weights[kPanels];
#pragma GCC unroll 2
      for (int p = 0; p < kPanels; ++p) {
        weights[p] = _mm512_loadu_si512(w + p * w_panel + at * kDepth);
        excess[p] = _mm512_dpbusd_epi32(excess[p], offset, weights[p]);
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        int four;
        std::memcpy(&four, x + r * kDepth + at * 4, sizeof four);
        const __m512i of_row = _mm512_set1_epi32(four);
#pragma GCC unroll 2
        for (int p = 0; p < kPanels; ++p) {
          total[p][r] = _mm512_dpbusd_epi32(total[p][r], of_row, weights[p]);
        }
      }
    }
  }
#pragma GCC unroll 2
  for (int p = 0; p < kPanels; ++p) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      _mm512_storeu_si512(sums + p * kTileSums + r * kTile,
                          _mm512_sub_epi32(total[p][r], excess[p]));
    }
  }
}

// Rows that fill up a tile are zeros, and may be multiplied.
template <int kPanels>
OPTEST_VNNI inline void vnni_tile(const Piece& piece, int64_t tile) {
  const char* const x = piece.x + tile * piece.x_tile;
  int32_t* const sums = static_cast<int32_t*>(piece.sums) + tile * 2 * kTileSums;
  const int64_t left = piece.rows - tile * kTile, rows = left < kTile ? left : kTile;
  if (rows <= 2) {
    vnni_rows<2, kPanels>(x, piece.w, piece.w_panel, piece.blocks, sums, piece.resume);
    return;
  }
  for (int64_t r = 0; r < rows; r += 8) {
    vnni_rows<8, kPanels>(x + r * kDepth, piece.w, piece.w_panel, piece.blocks, sums + r * kTile,
                          piece.resume);
  }
}

OPTEST_VNNI inline void vnni_dot(const Piece& piece) {
  for (int64_t t = 0; t * kTile < piece.rows; ++t) {
    piece.panels > 1 ? vnni_tile<2>(piece, t) : vnni_tile<1>(piece, t);
  }
}

// ---- AMX ------------------------------------------------------------------------------------------

struct AmxInt8 {
  using Sum = int32_t;
  static constexpr int64_t kBlock = kBlockBytes;

  static void pack_row(const uint8_t* from, char* block, int64_t row) {
    std::memcpy(block + row * kDepth, from, kDepth);
  }
};

// Tiles 4 and 5 are x, 6 and 7 weights. A panel or a tile that is not there is taken for the one that is,
// and its sums are not stored: the loop then has no branch.
OPTEST_AMX inline void amx_int8_dot(const Piece& piece) {
  const bool both_tiles = piece.rows > kTile;
  const bool both_panels = piece.panels > 1;
  const char* x0 = piece.x;
  const char* x1 = both_tiles ? x0 + piece.x_tile : x0;
  const uint8_t* w0 = piece.w;
  const uint8_t* w1 = both_panels ? w0 + piece.w_panel : w0;
  tile_fence();
  load_tile_sums(static_cast<const char*>(piece.sums), piece.resume);
  for (int64_t b = 0; b < piece.blocks; ++b) {
    if (piece.first_use) {
      for (int line = 0; line < kTile; ++line) {
        __builtin_prefetch(w0 + 4 * kBlockBytes + line * 64);
        __builtin_prefetch(w1 + 4 * kBlockBytes + line * 64);
      }
    }
    _tile_loadd(4, x0, 64);
    _tile_loadd(6, w0, 64);
    _tile_dpbssd(0, 4, 6);
    _tile_loadd(7, w1, 64);
    _tile_dpbssd(1, 4, 7);
    if (both_tiles) {
      _tile_loadd(5, x1, 64);
      _tile_dpbssd(2, 5, 6);
      _tile_dpbssd(3, 5, 7);
    }
    x0 += kBlockBytes;
    x1 += kBlockBytes;
    w0 += kBlockBytes;
    w1 += kBlockBytes;
  }
  store_tile_sums(static_cast<char*>(piece.sums), both_tiles, both_panels);
}

// ---- e4m3 as bf16 ---------------------------------------------------------------------------------

struct Fp8AsBf16 {
  static constexpr int64_t kBlock = kBf16Block;

  // The first 32 k of all rows, then the others.
  static void pack_row(const uint8_t* from, char* block, int64_t row) {
    const E4m3fn* const codes = reinterpret_cast<const E4m3fn*>(from);
    _mm512_storeu_si512(block + row * 64, bf16_of_codes(codes));
    _mm512_storeu_si512(block + kBlockBytes + row * 64, bf16_of_codes(codes + kDepth / 2));
  }
};

struct WidenFp8 {
  static constexpr int64_t kPackedBlock = kBlockBytes;
  static constexpr int64_t kPowers = 0;

  CodesAsBf16<E4m3fn> codes;
  __m512i halves;  // in each four columns: the first two k of each, then the other two

  OPTEST_VBMI WidenFp8() {
    halves = _mm512_broadcast_i32x4(
        _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
  }

  struct Shared {};
  OPTEST_VBMI Shared shared(const uint8_t*) const { return {}; }

  OPTEST_VBMI void four(const uint8_t* w, Shared, int at, __m512i (&pairs)[2]) const {
    codes.widen(_mm512_shuffle_epi8(_mm512_loadu_si512(w + at * 64), halves), pairs);
  }
};

OPTEST_AMX inline void amx_fp8_dot(const Piece& piece) { amx_bf16_dot<WidenFp8>(piece); }
OPTEST_BF16 inline void pair_fp8_dot(const Piece& piece) { pair_bf16_dot<WidenFp8>(piece); }
