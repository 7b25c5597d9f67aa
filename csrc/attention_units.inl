// Decode attention by AMX, of bf16: products of tiles are summed in fp32. A power is cut into three bf16 numbers
// that add up to it, so that nothing is rounded which the arithmetic in fp32 does not round. Read by
// attention_kernels.inl, once.

#include "optest/gemm_tiles.inl"
#include "optest/codes_as_bf16.inl"

constexpr int64_t kTileBytes = 1024;
constexpr int64_t kTileNumbers = 32;  // of a row, bf16
constexpr int64_t kPowerParts = 3;

inline int64_t chunks_of(int64_t n) { return (n + kTileNumbers - 1) / kTileNumbers; }

// ---- packing --------------------------------------------------------------------------------------

// 16 rows of 16 numbers become the columns of one another.
OPTEST_INLINE void transpose(F (&rows)[16]) {
  F pairs[16];
#pragma GCC unroll 16
  for (int i = 0; i < 8; ++i) {
    const __m512 a = (__m512)rows[2 * i], b = (__m512)rows[2 * i + 1];
    pairs[2 * i] = (F)_mm512_unpacklo_ps(a, b);
    pairs[2 * i + 1] = (F)_mm512_unpackhi_ps(a, b);
  }
  F fours[16];  // [4 rows][column within four]
#pragma GCC unroll 16
  for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      const __m512d a = (__m512d)pairs[4 * i + j], b = (__m512d)pairs[4 * i + 2 + j];
      fours[4 * i + 2 * j] = (F)_mm512_unpacklo_pd(a, b);
      fours[4 * i + 2 * j + 1] = (F)_mm512_unpackhi_pd(a, b);
    }
  }
#pragma GCC unroll 16
  for (int j = 0; j < 4; ++j) {
    const __m512 a = (__m512)fours[j], b = (__m512)fours[4 + j];
    const __m512 c = (__m512)fours[8 + j], d = (__m512)fours[12 + j];
    const __m512 ab_even = _mm512_shuffle_f32x4(a, b, 0x88);  // columns 0..3 and 8..11
    const __m512 ab_odd = _mm512_shuffle_f32x4(a, b, 0xdd);
    const __m512 cd_even = _mm512_shuffle_f32x4(c, d, 0x88);
    const __m512 cd_odd = _mm512_shuffle_f32x4(c, d, 0xdd);
    rows[j] = (F)_mm512_shuffle_f32x4(ab_even, cd_even, 0x88);
    rows[j + 8] = (F)_mm512_shuffle_f32x4(ab_even, cd_even, 0xdd);
    rows[j + 4] = (F)_mm512_shuffle_f32x4(ab_odd, cd_odd, 0x88);
    rows[j + 12] = (F)_mm512_shuffle_f32x4(ab_odd, cd_odd, 0xdd);
  }
}

// A row's numbers from i on, as many as a tile takes; zeros behind the last.
OPTEST_INLINE U load_chunk(const char* row, int64_t i, int64_t n) {
  const char* const from = row + i * 2;
  if (i + kTileNumbers <= n) return load_raw<U>(from);
  const __mmask32 there = (1u << (n - i)) - 1;
  return (U)_mm512_maskz_loadu_epi16(there, from);
}

inline int64_t tiled_query_bytes(int64_t count, int64_t n) {
  return (count + kTile - 1) / kTile * chunks_of(n) * kTileBytes;
}

// [16 queries][32 numbers] as [pair of numbers][query][2]; queries that are not there are zeros.
inline void tile_queries(const QueryRows& rows, char* to) {
  for (int64_t first = 0; first < rows.count; first += kTile) {
    for (int64_t i = 0; i < rows.length; i += kTileNumbers, to += kTileBytes) {
      F chunk[kTile];
      for (int64_t q = 0; q < kTile; ++q) {
        const char* const row = rows.base + (first + q) * rows.step;
        chunk[q] = first + q < rows.count ? (F)load_chunk(row, i, rows.length) : F{};
      }
      transpose(chunk);
      for (int64_t k = 0; k < kTile; ++k) store_raw(to + k * 64, chunk[k]);
    }
  }
}

// ---- keys and values ------------------------------------------------------------------------------

// 16 tokens' keys: rows `row` bytes apart, each 32 numbers `chunk` bytes behind the ones before.
struct KeyTile {
  const char* at;
  int64_t row, chunk;
};

// Where 16 tokens' rows lie evenly and are whole, they are taken from where they are.
inline bool lie_evenly(const int64_t* at, int64_t n) {
  if (n % kTileNumbers != 0) return false;
  for (int t = 2; t < kTile; ++t) {
    if (at[t] - at[t - 1] != at[1] - at[0]) return false;
  }
  return true;
}

// Others are copied to `own`; tokens that are not there repeat the last one.
inline void tile_keys(const TokenRows& keys, int64_t width, int64_t n, char* own, KeyTile* tiles) {
  const int64_t chunks = chunks_of(n);
  for (int64_t t = 0; t < width; t += kTile, own += chunks * kTileBytes) {
    const int64_t* const at = keys.at + t;
    tiles[t / kTile] = {keys.base + at[0], at[1] - at[0], 64};
    if (lie_evenly(at, n)) continue;
    for (int64_t j = 0; j < kTile; ++j) {
      for (int64_t c = 0; c < chunks; ++c) {
        store_raw(own + c * kTileBytes + j * 64,
                  load_chunk(keys.base + at[j], c * kTileNumbers, n));
      }
    }
    tiles[t / kTile] = {own, 64, kTileBytes};
  }
}

// Two tokens' numbers as rows of two tiles: of the even and of the odd numbers, each [number][2].
OPTEST_INLINE void put_pair_of_tokens(char* to, U a, U b) {
  store_raw(to, (a & 0xffffu) | b << 16);
  store_raw(to + kTileBytes, a >> 16 | (b & 0xffff0000u));
}

// [32 tokens][32 numbers][even or odd numbers]; a token is beside the one 16 behind it. Tokens that are not
// there are zeros.
inline void tile_values(const TokenRows& values, int64_t count, int64_t width, int64_t n,
                        char* to) {
  const int64_t chunks = chunks_of(n);
  for (int64_t t = 0; t < width; t += 2 * kTile, to += chunks * 2 * kTileBytes) {
    for (int64_t j = 0; j < kTile; ++j) {
      const int64_t one = t + j, other = one + kTile;
      const char* const a = values.base + values.at[one];
      const char* const b = values.base + values.at[other];
      const char* const next_a = values.base + values.next[one];
      const char* const next_b = values.base + values.next[other];
      char* const row = to + j * 64;
      if (other < count && n % kTileNumbers == 0) {
        for (int64_t c = 0; c < chunks; ++c) {
          __builtin_prefetch(next_a + c * 64, 0, 2);
          __builtin_prefetch(next_b + c * 64, 0, 2);
          put_pair_of_tokens(row + c * 2 * kTileBytes, load_raw<U>(a + c * 64),
                             load_raw<U>(b + c * 64));
        }
        continue;
      }
      for (int64_t c = 0; c < chunks; ++c) {
        const int64_t i = c * kTileNumbers;
        put_pair_of_tokens(row + c * 2 * kTileBytes, one < count ? load_chunk(a, i, n) : U{},
                           other < count ? load_chunk(b, i, n) : U{});
      }
    }
  }
}

// ---- powers ---------------------------------------------------------------------------------------

// The upper halves of 16 tokens and of the 16 behind them, which are taken off: what is left is exact. Nothing
// is left as the smallest number, so that it times an infinite value is none.
OPTEST_INLINE U take_upper_halves(F* a, F* b) {
  const U upper_a = (U)*a & 0xffff0000u, upper_b = (U)*b & 0xffff0000u;
  *a = at_least(*a - (F)upper_a, splat(0x1p-126f));
  *b = at_least(*b - (F)upper_b, splat(0x1p-126f));
  return upper_a >> 16 | upper_b;
}

// Those of query q, as row of the tiles of its block: [32 tokens][part][query tile].
OPTEST_INLINE void tile_powers(const float* powers, int64_t width, int64_t query_tiles, int64_t q,
                               char* tiles) {
  char* row = tiles + q / kTile * kTileBytes + q % kTile * 64;
  for (int64_t t = 0; t < width; t += 2 * kTile) {
    F a = load(powers + t), b = load(powers + t + kTile);
    for (int64_t part = 0; part < kPowerParts; ++part, row += query_tiles * kTileBytes) {
      store_raw(row, take_upper_halves(&a, &b));
    }
  }
}

// ---- products -------------------------------------------------------------------------------------

// Tiles 0 to 3 are results. Rows of queries that are not there hold what memory held, and so do their results,
// which are not read.
OPTEST_AMX OPTEST_INLINE void zero_results() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

OPTEST_AMX OPTEST_INLINE void store_results(float* to) {
  _tile_stored(0, to, 64);
  _tile_stored(1, to + kTileSums, 64);
  _tile_stored(2, to + 2 * kTileSums, 64);
  _tile_stored(3, to + 3 * kTileSums, 64);
  tile_fence();
}

// scores[key tile] = [token][query] of two key tiles and one query tile.
OPTEST_AMX inline void tile_scores(const KeyTile* keys, const char* queries, int64_t chunks,
                                   float* scores) {
  _tile_zero(0);
  _tile_zero(1);
  for (int64_t c = 0; c < chunks; ++c, queries += kTileBytes) {
    _tile_loadd(6, queries, 64);
    _tile_loadd(4, keys[0].at + c * keys[0].chunk, keys[0].row);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(5, keys[1].at + c * keys[1].chunk, keys[1].row);
    _tile_dpbf16ps(1, 5, 6);
  }
  _tile_stored(0, scores, 64);
  _tile_stored(1, scores + kTileSums, 64);
  tile_fence();
}

// scores[key tile][query tile] of two and two.
OPTEST_AMX inline void tile_scores_of_two(const KeyTile* keys, const char* queries, int64_t chunks,
                                          float* scores) {
  zero_results();
  for (int64_t c = 0; c < chunks; ++c, queries += kTileBytes) {
    _tile_loadd(6, queries, 64);
    _tile_loadd(4, keys[0].at + c * keys[0].chunk, keys[0].row);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, queries + chunks * kTileBytes, 64);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, keys[1].at + c * keys[1].chunk, keys[1].row);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  store_results(scores);
}

// made[values][even or odd numbers] = sums over the tokens of powers by values, of one query tile and two times
// 32 numbers, `other` bytes apart.
OPTEST_AMX inline void tile_products(const char* powers, const char* values, int64_t other,
                                     int64_t steps, int64_t step, float* made) {
  zero_results();
  for (int64_t s = 0; s < steps; ++s, values += step) {
    for (int64_t part = 0; part < kPowerParts; ++part, powers += kTileBytes) {
      _tile_loadd(4, powers, 64);
      _tile_loadd(5, values, 64);
      _tile_dpbf16ps(0, 4, 5);
      _tile_loadd(6, values + kTileBytes, 64);
      _tile_dpbf16ps(1, 4, 6);
      _tile_loadd(7, values + other, 64);
      _tile_dpbf16ps(2, 4, 7);
      _tile_loadd(5, values + other + kTileBytes, 64);
      _tile_dpbf16ps(3, 4, 5);
    }
  }
  store_results(made);
}

// made[query tile][even or odd numbers] of two query tiles and 32 numbers.
OPTEST_AMX inline void tile_products_of_two(const char* powers, const char* values, int64_t steps,
                                            int64_t step, float* made) {
  zero_results();
  for (int64_t s = 0; s < steps; ++s, values += step) {
    _tile_loadd(6, values, 64);
    _tile_loadd(7, values + kTileBytes, 64);
    for (int64_t part = 0; part < kPowerParts; ++part, powers += 2 * kTileBytes) {
      _tile_loadd(4, powers, 64);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      _tile_loadd(5, powers + kTileBytes, 64);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
  }
  store_results(made);
}

// ---- one tile of tokens ---------------------------------------------------------------------------

struct TiledTokens {
  const KeyTile* keys;
  const char* values;
  const TokenRows* next_keys;  // of which the next rows are asked for; null where that was done
  int64_t count, width;        // tokens that are there, and with those that fill up the last tiles
};

// Rows of 16 tokens of the next tile.
inline void ask_for_rows(const TokenRows& rows, int64_t first, int64_t chunks) {
  for (int64_t t = first; t < first + kTile; ++t) {
    for (int64_t c = 0; c < chunks; ++c) ask_for_next(rows, t, c * 64);
  }
}

// scores[query][token] of a block, times the factor.
template <int kQueryTiles>
OPTEST_INLINE void score_block(const TiledTokens& tokens, const char* queries, const Softmax& run,
                               float (*scores)[kMostTileTokens]) {
  const int64_t chunks = chunks_of(run.query_length);
  alignas(64) float made[2 * kQueryTiles * kTileSums];
  for (int64_t first = 0; first < tokens.width; first += 2 * kTile) {
    const KeyTile* const keys = tokens.keys + first / kTile;
    if constexpr (kQueryTiles == 2) {
      tile_scores_of_two(keys, queries, chunks, made);
    } else {
      tile_scores(keys, queries, chunks, made);
    }
    for (int64_t i = 0; i < 2 * kQueryTiles; ++i) {
      const int64_t token = first + i / kQueryTiles * kTile;
      if (tokens.next_keys != nullptr && i % kQueryTiles == 0) {
        ask_for_rows(*tokens.next_keys, token, chunks);
      }
      F tile[kTile];
      for (int64_t j = 0; j < kTile; ++j) tile[j] = load(made + i * kTileSums + j * kTile);
      transpose(tile);
      float* const to = scores[i % kQueryTiles * kTile] + token;
      for (int64_t q = 0; q < kTile; ++q) {
        store_raw(to + q * kMostTileTokens, tile[q] * run.factor);
      }
    }
  }
}

// sums = sums * before + results, of one query and 32 numbers.
OPTEST_INLINE void add_results(const float* made, float before, float* sums) {
  store_raw(sums, fma(load(sums), splat(before), load(made)));
  store_raw(sums + kLanes, fma(load(sums + kLanes), splat(before), load(made + kTileSums)));
}

template <int kQueryTiles>
OPTEST_INLINE void multiply_block(const TiledTokens& tokens, const char* powers,
                                  const float* before, int64_t rows, const Softmax& run,
                                  float* sums) {
  constexpr int64_t together = 2 / kQueryTiles;  // times 32 numbers
  const int64_t chunks = chunks_of(run.length), steps = tokens.width / (2 * kTile);
  const int64_t step = chunks * 2 * kTileBytes;
  alignas(64) float made[4 * kTileSums];
  for (int64_t c = 0; c < chunks; c += together) {
    const char* const values = tokens.values + c * 2 * kTileBytes;
    const bool both = together == 2 && c + 1 < chunks;
    if constexpr (kQueryTiles == 2) {
      tile_products_of_two(powers, values, steps, step, made);
    } else {
      tile_products(powers, values, both ? 2 * kTileBytes : 0, steps, step, made);
    }
    for (int64_t q = 0; q < rows; ++q) {
      const float* const row = made + q / kTile * 2 * kTileSums + q % kTile * kTile;
      float* const to = sums + q * run.room + c * kTileNumbers;
      add_results(row, before[q], to);
      if (both) add_results(row + 2 * kTileSums, before[q], to + kTileNumbers);
    }
  }
}

// Queries `first` to `first + rows`: 32 of them, or 16 and fewer.
template <int kQueryTiles>
OPTEST_NOINLINE void attend_block(const TiledTokens& tokens, const Softmax& run, int64_t first,
                                  int64_t rows) {
  alignas(64) float scores[kQueryTiles * kTile][kMostTileTokens];
  alignas(64) char powers[kQueryTiles * kPowerParts * kMostTileTokens / (2 * kTile) * kTileBytes];
  float before[kQueryTiles * kTile];
  score_block<kQueryTiles>(
      tokens, run.queries + first / kTile * chunks_of(run.query_length) * kTileBytes, run, scores);
  for (int64_t q = 0; q < rows; ++q) {
    to_powers<1>(scores[q], kMostTileTokens, tokens.count, tokens.width, run.largest + first + q,
                 run.totals + first + q, before + q);
    tile_powers(scores[q], tokens.width, kQueryTiles, q, powers);
  }
  tile_fence();
  multiply_block<kQueryTiles>(tokens, powers, before, rows, run, run.sums + first * run.room);
}

// Bytes of packed keys, and of packed values.
inline int64_t tiled_bytes(int64_t n) {
  return kMostTileTokens / kTile * chunks_of(n) * kTileBytes;
}

inline int64_t tiled_spare(int64_t query_length, int64_t length, const Heads&) {
  return tiled_bytes(query_length) + tiled_bytes(length);
}

// One KV head's queries; `run` stands at the first one of them.
inline void attend_head(const TokenRows& keys, const TokenRows& values, int64_t count,
                        const Softmax& run, int64_t group) {
  const int64_t width = (count + 2 * kTile - 1) / (2 * kTile) * (2 * kTile);
  char* const own_values = run.spare + tiled_bytes(run.query_length);
  KeyTile key_tiles[kMostTileTokens / kTile];
  tile_keys(keys, width, run.query_length, run.spare, key_tiles);
  tile_values(values, count, width, run.length, own_values);
  tile_fence();
  TiledTokens tokens{key_tiles, own_values, &keys, count, width};
  int64_t q = 0;
  for (; q + 2 * kTile <= group; q += 2 * kTile, tokens.next_keys = nullptr) {
    attend_block<2>(tokens, run, q, 2 * kTile);
  }
  for (; q < group; q += kTile, tokens.next_keys = nullptr) {
    attend_block<1>(tokens, run, q, group - q < kTile ? group - q : kTile);
  }
}

// One tile of tokens.
inline void attend_tiled(const TokenRows& keys, const TokenRows& values, int64_t count,
                         const Softmax& run, const Heads& heads) {
  for (int64_t h = 0; h < heads.count; ++h) {
    const int64_t q = h * heads.group;
    Softmax of_head = run;
    of_head.queries += h * heads.query_step;
    of_head.sums += q * run.room;
    of_head.largest += q;
    of_head.totals += q;
    attend_head({keys.base + h * heads.key_step, keys.at, keys.next},
                {values.base + h * heads.value_step, values.at, values.next}, count, of_head,
                heads.group);
  }
}
