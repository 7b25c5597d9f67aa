// Products of packed operands, piece by piece (optest/gemm_piece.h), by any unit: what it multiplies is the
// unit's own. Read once per instruction set, after vec.inl.

// What fp32 units share: x [row][k] and weights [k][16 columns], both widened.
struct Fp32Unit {
  using Sum = float;
  using Vector = F;
  static constexpr int64_t kBlock = 4 * kBlockBytes;
  static constexpr int64_t kWideBlock = 4 * kBlockBytes;
  static constexpr int64_t kSteps = kDepth;

  template <int kRows>
  static OPTEST_INLINE void step(F (&sums)[kRows], const char* x, const void* w, int64_t at,
                                 int64_t column) {
    const F weights = load_raw<F>(static_cast<const char*>(w) + (at * kTile + column) * 4);
    for (int r = 0; r < kRows; ++r) {
      float value;
      std::memcpy(&value, x + r * (kBlock / kTile) + at * 4, sizeof value);
      sums[r] = fma(splat(value), weights, sums[r]);
    }
  }
};

template <class Unit, int kRows>
OPTEST_INLINE void rows_dot(const char* x, const char* w, int64_t w_block, int64_t blocks,
                            typename Unit::Sum* sums, bool resume) {
  using Vector = typename Unit::Vector;
  for (int64_t c = 0; c < kTile; c += kLanes) {
    Vector total[kRows];
    for (int r = 0; r < kRows; ++r) {
      total[r] = resume ? load_raw<Vector>(sums + r * kTile + c) : Vector{};
    }
    for (int64_t b = 0; b < blocks; ++b) {
      for (int64_t at = 0; at < Unit::kSteps; ++at) {
        Unit::template step<kRows>(total, x + b * Unit::kBlock, w + b * w_block, at, c);
      }
    }
    for (int r = 0; r < kRows; ++r) store_raw(sums + r * kTile + c, total[r]);
  }
}

template <class Unit>
void tile_dot(const char* x, const char* w, int64_t w_block, int64_t blocks, int64_t rows,
              typename Unit::Sum* sums, bool resume) {
  constexpr int64_t row = Unit::kBlock / kTile;
  int64_t r = 0;
  for (; r + 2 < rows; r += 4) {
    rows_dot<Unit, 4>(x + r * row, w, w_block, blocks, sums + r * kTile, resume);
  }
  for (; r < rows; ++r) {
    rows_dot<Unit, 1>(x + r * row, w, w_block, blocks, sums + r * kTile, resume);
  }
}

template <class Unit>
void dot(const Piece& piece) {
  const auto sums = static_cast<typename Unit::Sum*>(piece.sums);
  for (int64_t p = 0; p < piece.panels; ++p) {
    const uint8_t* const w = piece.w + p * piece.w_panel;
    const char* from = reinterpret_cast<const char*>(w);
    int64_t w_block = Unit::kPackedBlock;
    if constexpr (Unit::kWideBlock > 0) {
      char* const wide = piece.wide + p * piece.wide_panel;
      for (int64_t b = 0; piece.first_use && b < piece.blocks; ++b) {
        Unit::widen(w + b * Unit::kPackedBlock, piece.w_powers + p * piece.w_powers_panel +
                        b * kScalesPerBlock, wide + b * Unit::kWideBlock);
      }
      from = wide;
      w_block = Unit::kWideBlock;
    }
    for (int64_t t = 0; t * kTile < piece.rows; ++t) {
      const int64_t left = piece.rows - t * kTile;
      tile_dot<Unit>(piece.x + t * piece.x_tile, from, w_block, piece.blocks,
                     left < kTile ? left : kTile, sums + (t * 2 + p) * kTileSums, piece.resume);
    }
  }
}

// ---- scales and results ---------------------------------------------------------------------------

OPTEST_INLINE F load_sums(const int32_t* from) {
  return __builtin_convertvector(load_raw<I>(from), F);
}
OPTEST_INLINE F load_sums(const float* from) { return load_raw<F>(from); }

// totals += sums * x_scale[row] * w_scale for one tile of sums over one block of scales.
template <class Sum>
void add_scaled(const void* sums, float* totals, int64_t rows, const float* x_scale,
                int64_t x_scale_row, float w_scale) {
  const Sum* const from = static_cast<const Sum*>(sums);
  for (int64_t r = 0; r < rows; ++r) {
    const F scale = splat(x_scale[r * x_scale_row] * w_scale);
    for (int64_t c = 0; c < kTile; c += kLanes) {
      float* const to = totals + r * kTile + c;
      store_raw(to, fma(load_sums(from + r * kTile + c), scale, load_raw<F>(to)));
    }
  }
}

// One tile of results: sums, by scales of rows and of columns where there are such.
template <class Sum, class Out>
void finish(const void* sums, const float* x_scale, const float* w_scale, int64_t rows,
            int64_t columns, void* out, int64_t out_row) {
  const Sum* const from = static_cast<const Sum*>(sums);
  float by_column[kTile] = {};
  if (w_scale != nullptr) std::memcpy(by_column, w_scale, static_cast<size_t>(columns) * 4);
  for (int64_t r = 0; r < rows; ++r) {
    Out* const row = reinterpret_cast<Out*>(static_cast<char*>(out) + r * out_row);
    for (int64_t c = 0; c < columns; c += kLanes) {
      F value = load_sums(from + r * kTile + c);
      if (w_scale != nullptr) value = value * splat(x_scale[r]) * load_raw<F>(by_column + c);
      if (c + kLanes <= columns) {
        store(row + c, value);
      } else {
        store_part(row + c, value, columns - c);
      }
    }
  }
}
