// What multiplies beside AVX-512 itself, where the CPU has it. Read once, by the kernels of AVX-512.

#define OPTEST_ALL_OF_AVX512 "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl"
#define OPTEST_VNNI __attribute__((target(OPTEST_ALL_OF_AVX512 ",avx512vnni")))
#define OPTEST_VBMI __attribute__((target(OPTEST_ALL_OF_AVX512 ",avx512vbmi")))
#define OPTEST_BF16 __attribute__((target(OPTEST_ALL_OF_AVX512 ",avx512vbmi,avx512bf16")))
#define OPTEST_AMX \
  __attribute__((target(OPTEST_ALL_OF_AVX512 ",avx512vbmi,amx-tile,amx-int8,amx-bf16")))

// ---- weights as bf16 ------------------------------------------------------------------------------

// Both units below take x as two tiles of bf16 a block, 16 rows of 32 k, and weights as `Widen` makes them:
// [2 k][16 columns][k of 2].
inline constexpr int64_t kBf16Block = 2 * kBlockBytes;

// Block b of each panel, and a look ahead at those that follow.
template <class Widen>
OPTEST_VBMI OPTEST_INLINE void widen_block(const Piece& piece, const Widen& widen, int64_t b) {
  for (int64_t p = 0; p < piece.panels; ++p) {
    const uint8_t* const w = piece.w + p * piece.w_panel + b * Widen::kPackedBlock;
    for (int64_t line = 0; line < Widen::kPackedBlock; line += 64) {
      __builtin_prefetch(w + 4 * Widen::kPackedBlock + line);
    }
    widen(w, piece.w_powers + p * piece.w_powers_panel + b * kScalesPerBlock,
          piece.wide + p * piece.wide_panel + b * kBf16Block);
  }
}

// ---- dot products of pairs of bf16 ----------------------------------------------------------------

// The sums of some rows and the panels, kTileSums apart, go on through `blocks`.
template <int kRows, int kPanels>
OPTEST_BF16 inline void pair_rows(const char* x, const char* w, int64_t w_panel, int64_t blocks,
                                  float* sums, bool resume) {
  __m512 total[kPanels][kRows];
#pragma GCC unroll 2
  for (int p = 0; p < kPanels; ++p) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const float* const from = sums + p * kTileSums + r * kTile;
      total[p][r] = resume ? _mm512_loadu_ps(from) : _mm512_setzero_ps();
    }
  }
  for (int64_t half = 0; half < 2 * blocks; ++half, x += kBlockBytes, w += kBlockBytes) {
    for (int at = 0; at < kTile; ++at) {
      __m512bh weights[kPanels];
#pragma GCC unroll 2
      for (int p = 0; p < kPanels; ++p) {
        weights[p] = (__m512bh)_mm512_loadu_si512(w + p * w_panel + at * 64);
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        int pair;
        std::memcpy(&pair, x + r * 64 + at * 4, sizeof pair);
        const __m512bh of_row = (__m512bh)_mm512_set1_epi32(pair);
#pragma GCC unroll 2
        for (int p = 0; p < kPanels; ++p) {
          total[p][r] = _mm512_dpbf16_ps(total[p][r], of_row, weights[p]);
        }
      }
    }
  }
#pragma GCC unroll 2
  for (int p = 0; p < kPanels; ++p) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      _mm512_storeu_ps(sums + p * kTileSums + r * kTile, total[p][r]);
    }
  }
}

// Rows that fill up a tile are zeros, and may be multiplied.
template <int kPanels>
OPTEST_BF16 inline void pair_tile(const char* x, const char* w, int64_t w_panel, int64_t blocks,
                                  int64_t rows, float* sums, bool resume) {
  if (rows <= 2) return pair_rows<2, kPanels>(x, w, w_panel, blocks, sums, resume);
  for (int64_t r = 0; r < rows; r += 8) {
    pair_rows<8, kPanels>(x + r * 64, w, w_panel, blocks, sums + r * kTile, resume);
  }
}

template <class Widen>
OPTEST_BF16 inline void pair_bf16_dot(const Piece& piece) {
  const Widen widen;
  const int64_t some = piece.first_use ? 1 : piece.blocks;  // each is multiplied where it was widened
  for (int64_t b = 0; b < piece.blocks; b += some) {
    if (piece.first_use) widen_block(piece, widen, b);
    const char* const w = piece.wide + b * kBf16Block;
    for (int64_t t = 0; t * kTile < piece.rows; ++t) {
      const int64_t left = piece.rows - t * kTile, rows = left < kTile ? left : kTile;
      const char* const x = piece.x + t * piece.x_tile + b * kBf16Block;
      float* const sums = static_cast<float*>(piece.sums) + t * 2 * kTileSums;
      if (piece.panels > 1) {
        pair_tile<2>(x, w, piece.wide_panel, some, rows, sums, piece.resume || b > 0);
      } else {
        pair_tile<1>(x, w, piece.wide_panel, some, rows, sums, piece.resume || b > 0);
      }
    }
  }
}

// ---- AMX ------------------------------------------------------------------------------------------

// To some compilers tiles are loaded from no memory: what they load is written before this.
OPTEST_INLINE void tile_fence() { __asm__ volatile("" ::: "memory"); }

struct alignas(64) TileShape {
  uint8_t palette;
  uint8_t start;
  uint8_t reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};

// Eight whole tiles: 16 rows of 64 bytes.
inline const TileShape kWholeTiles = {1,
                                      0,
                                      {},
                                      {64, 64, 64, 64, 64, 64, 64, 64},
                                      {16, 16, 16, 16, 16, 16, 16, 16}};

OPTEST_AMX inline void open_tiles() { _tile_loadconfig(&kWholeTiles); }

OPTEST_AMX inline void close_tiles() { _tile_release(); }

// Tiles 0 to 3 are sums: 0 and 1 of the first rows, 2 and 3 of the others; 1 and 3 of the second panel.
OPTEST_AMX inline void load_tile_sums(const char* sums, bool resume) {
  if (!resume) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    return;
  }
  _tile_loadd(0, sums, 64);
  _tile_loadd(1, sums + 4 * kTileSums, 64);
  _tile_loadd(2, sums + 8 * kTileSums, 64);
  _tile_loadd(3, sums + 12 * kTileSums, 64);
}

OPTEST_AMX inline void store_tile_sums(char* sums, bool both_tiles, bool both_panels) {
  _tile_stored(0, sums, 64);
  if (both_panels) _tile_stored(1, sums + 4 * kTileSums, 64);
  if (both_tiles) _tile_stored(2, sums + 8 * kTileSums, 64);
  if (both_tiles && both_panels) _tile_stored(3, sums + 12 * kTileSums, 64);
  tile_fence();
}

template <class Widen>
OPTEST_AMX inline void amx_bf16_dot(const Piece& piece) {
  const bool both_tiles = piece.rows > kTile;
  const bool both_panels = piece.panels > 1;
  const Widen widen;
  const char* x0 = piece.x;
  const char* x1 = both_tiles ? x0 + piece.x_tile : x0;
  const char* wide0 = piece.wide;
  const char* wide1 = both_panels ? wide0 + piece.wide_panel : wide0;
  tile_fence();
  load_tile_sums(static_cast<const char*>(piece.sums), piece.resume);
  for (int64_t b = 0; b < piece.blocks; ++b) {
    if (piece.first_use) {
      widen_block(piece, widen, b);
      tile_fence();
    }
    for (int half = 0; half < 2; ++half) {
      _tile_loadd(4, x0, 64);
      _tile_loadd(6, wide0, 64);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(7, wide1, 64);
      _tile_dpbf16ps(1, 4, 7);
      if (both_tiles) {
        _tile_loadd(5, x1, 64);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
      }
      x0 += kBlockBytes;
      x1 += kBlockBytes;
      wide0 += kBlockBytes;
      wide1 += kBlockBytes;
    }
  }
  store_tile_sums(static_cast<char*>(piece.sums), both_tiles, both_panels);
}
