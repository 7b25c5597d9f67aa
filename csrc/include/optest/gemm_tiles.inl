// What multiplies beside AVX-512 itself, where the CPU has it. Read once, by the kernels of AVX-512.

#define OPTEST_ALL_OF_AVX512 "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl"
#define OPTEST_VNNI __attribute__((target(OPTEST_ALL_OF_AVX512 ",avx512vnni")))
#define OPTEST_AMX \
  __attribute__((target(OPTEST_ALL_OF_AVX512 ",avx512vbmi,amx-tile,amx-int8,amx-bf16")))

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

// Weights that `Widen` makes bf16 of, [2 k][16 columns][k of 2]: a block makes two tiles.
template <class Widen>
OPTEST_AMX inline void amx_bf16_dot(const Piece& piece) {
  const bool both_tiles = piece.rows > kTile;
  const bool both_panels = piece.panels > 1;
  const Widen widen;
  const char* x0 = piece.x;
  const char* x1 = both_tiles ? x0 + piece.x_tile : x0;
  char* wide0 = piece.wide;
  char* wide1 = both_panels ? wide0 + piece.wide_panel : wide0;
  tile_fence();
  load_tile_sums(static_cast<const char*>(piece.sums), piece.resume);
  for (int64_t b = 0; b < piece.blocks; ++b) {
    if (piece.first_use) {
      const uint8_t* const w = piece.w + b * Widen::kPackedBlock;
      const uint8_t* const powers = piece.w_powers + b * kScalesPerBlock;
      for (int64_t line = 0; line < Widen::kPackedBlock; line += 64) {
        __builtin_prefetch(w + 4 * Widen::kPackedBlock + line);
        if (both_panels) __builtin_prefetch(w + piece.w_panel + 4 * Widen::kPackedBlock + line);
      }
      widen(w, powers, wide0);
      if (both_panels) widen(w + piece.w_panel, powers + piece.w_powers_panel, wide1);
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
