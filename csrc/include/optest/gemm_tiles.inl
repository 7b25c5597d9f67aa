// What multiplies beside AVX-512 itself, where the CPU has it. Read once, by the kernels of AVX-512.

#define OPTEST_ALL_OF_AVX512 "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl"
#define OPTEST_VNNI __attribute__((target(OPTEST_ALL_OF_AVX512 ",avx512vnni")))
#define OPTEST_VBMI __attribute__((target(OPTEST_ALL_OF_AVX512 ",avx512vbmi")))
#define OPTEST_BF16 __attribute__((target(OPTEST_ALL_OF_AVX512 ",avx512vbmi,avx512bf16")))
#define OPTEST_AMX \
  __attribute__((target(OPTEST_ALL_OF_AVX512 ",avx512vbmi,amx-tile,amx-int8,amx-bf16")))

// ---- weights as bf16 ------------------------------------------------------------------------------

// Both units below take x as two tiles of bf16 a block, 16 rows of 32 k, and weights as `Widen` makes them:
// [2 k][16 columns][k of 2]. It widens four k of all columns at a time, by what 32 k share: kPowers codes.
inline constexpr int64_t kBf16Block = 2 * kBlockBytes;
inline constexpr int kFours = 8;  // of 32 k

// Of block b of a panel; null where there are none.
template <class Widen>
OPTEST_INLINE const uint8_t* powers_of(const Piece& piece, int64_t panel, int64_t b) {
  if (Widen::kPowers == 0) return nullptr;
  return piece.w_powers + panel * piece.w_powers_panel + b * 2 * Widen::kPowers;
}

// A block to come, and its powers.
template <class Widen>
OPTEST_VBMI OPTEST_INLINE void ask_for_block(const uint8_t* w, const uint8_t* powers) {
  constexpr int64_t block = Widen::kPackedBlock;
  constexpr int64_t ahead = 4096 / block < 4 ? 4 : 4096 / block;
  if (Widen::kPowers > 0) __builtin_prefetch(powers + ahead * 2 * Widen::kPowers);
  for (int64_t line = 0; line < block; line += 64) __builtin_prefetch(w + ahead * block + line);
}

// The same where the weights are nearly all that is read: AMD's cores are asked for pages, as
// ask_for_stream has it.
template <class Widen>
OPTEST_VBMI OPTEST_INLINE void ask_for_stream_of_blocks(const uint8_t* w, const uint8_t* powers) {
  if (!kIsAmd) return ask_for_block<Widen>(w, powers);
  ask_for_page<Widen::kPackedBlock>(w + Widen::kPackedBlock);
  if (Widen::kPowers > 0) ask_for_page<2 * Widen::kPowers>(powers + 2 * Widen::kPowers);
}

// Block b of each panel, and a look ahead at those that follow.
template <class Widen>
OPTEST_VBMI OPTEST_INLINE void widen_block(const Piece& piece, const Widen& widen, int64_t b) {
  for (int64_t p = 0; p < piece.panels; ++p) {
    const uint8_t* w = piece.w + p * piece.w_panel + b * Widen::kPackedBlock;
    const uint8_t* powers = powers_of<Widen>(piece, p, b);
    char* wide = piece.wide + p * piece.wide_panel + b * kBf16Block;
    ask_for_block<Widen>(w, powers);
    for (int64_t half = 0; half < 2; ++half, w += Widen::kPackedBlock / 2) {
      const auto shared = widen.shared(powers + half * Widen::kPowers);
      for (int at = 0; at < kFours; ++at, wide += 128) {
        __m512i pairs[2];
        widen.four(w, shared, at, pairs);
        _mm512_store_si512(wide, pairs[0]);
        _mm512_store_si512(wide + 64, pairs[1]);
      }
    }
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
  for (int64_t r = 0; r < rows; r += 8) {
    pair_rows<8, kPanels>(x + r * 64, w, w_panel, blocks, sums + r * kTile, resume);
  }
}

// One panel by so few rows that its weights are widened where they are multiplied. Of few rows each has two
// sums, as one product waits for the other.
template <class Widen, int kRows>
OPTEST_BF16 inline void pair_straight(const Piece& piece, int64_t panel) {
  constexpr int kSums = kRows > 8 ? 1 : 2;
  // By products for each line of weights: memory or they take the time.
  constexpr bool kStream = kRows * kBf16Block <= 8 * Widen::kPackedBlock;
  const Widen widen;
  const uint8_t* w = piece.w + panel * piece.w_panel;
  const uint8_t* const powers = powers_of<Widen>(piece, panel, 0);
  const char* x = piece.x;
  float* const sums = static_cast<float*>(piece.sums) + panel * kTileSums;
  __m512 total[kRows][kSums];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    total[r][kSums - 1] = _mm512_setzero_ps();
    total[r][0] = piece.resume ? _mm512_loadu_ps(sums + r * kTile) : _mm512_setzero_ps();
  }
  for (int64_t half = 0; half < 2 * piece.blocks; ++half, x += kBlockBytes) {
    if (half % 2 == 0) {
      const uint8_t* const of_block = powers + half * Widen::kPowers;
      kStream ? ask_for_stream_of_blocks<Widen>(w, of_block) : ask_for_block<Widen>(w, of_block);
    }
    const auto shared = widen.shared(powers + half * Widen::kPowers);
    for (int at = 0; at < kFours; ++at) {
      __m512i pairs[2];
      widen.four(w, shared, at, pairs);
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) {
          int pair;
          std::memcpy(&pair, x + r * 64 + at * 8 + i * 4, sizeof pair);
          total[r][i % kSums] = _mm512_dpbf16_ps(
              total[r][i % kSums], (__m512bh)_mm512_set1_epi32(pair), (__m512bh)pairs[i]);
        }
      }
    }
    w += Widen::kPackedBlock / 2;
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const __m512 all =
        kSums == 1 ? total[r][0] : _mm512_add_ps(total[r][0], total[r][kSums - 1]);
    _mm512_storeu_ps(sums + r * kTile, all);
  }
}

template <class Widen>
OPTEST_BF16 inline void pair_straight(const Piece& piece) {
  for (int64_t p = 0; p < piece.panels; ++p) {
    if (piece.rows <= 1) pair_straight<Widen, 1>(piece, p);
    else if (piece.rows <= 2) pair_straight<Widen, 2>(piece, p);
    else if (piece.rows <= 4) pair_straight<Widen, 4>(piece, p);
    else if (piece.rows <= 8) pair_straight<Widen, 8>(piece, p);
    else if (piece.rows <= 12) pair_straight<Widen, 12>(piece, p);
    else pair_straight<Widen, 16>(piece, p);
  }
}

template <class Widen>
OPTEST_BF16 inline void pair_bf16_dot(const Piece& piece) {
  // Weights that no other rows follow for are multiplied at once.
  if (piece.first_use && piece.rows <= kTile) return pair_straight<Widen>(piece);
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
