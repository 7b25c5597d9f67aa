// One step of a GEMM of narrow operands: up to two tiles of 16 rows by two panels of 16 columns.
#pragma once

#include <cstdint>

namespace optest {

inline constexpr int64_t kTile = 16;        // rows of a tile of x, columns of a panel of weights
inline constexpr int64_t kDepth = 64;       // k of a block
inline constexpr int64_t kBlockBytes = kTile * kDepth;  // of weights of 8 bits
inline constexpr int64_t kScalesPerBlock = kTile * kDepth / 32;
inline constexpr int64_t kTileSums = kTile * kTile;
inline constexpr int64_t kPieceSums = 4 * kTileSums;

struct Piece {
  const char* x;         // packed by the kernel's own pack_x
  int64_t x_tile;        // bytes from one tile of rows to the next
  const uint8_t* w;      // blocks, each as the kernel's own packing has it
  int64_t w_panel;       // bytes from one panel to the next
  const uint8_t* w_powers;  // [block][2 of 32 k][16 columns]: scales as e8m0, or null
  int64_t w_powers_panel;   // bytes from one panel to the next
  int64_t blocks;        // of kDepth
  int64_t rows;          // 1 to 32
  int64_t panels;        // 1 or 2
  bool resume;           // go on from `sums`, which are overwritten from zero otherwise
  void* sums;            // [2 tiles][2 panels][16][16] int32 or fp32
  char* wide;            // room for the weights in the wider dtype that the unit multiplies
  int64_t wide_panel;    // bytes of it from one panel to the next
  bool first_use;        // of these weights: widen them, ask for those to come
};

}  // namespace optest
