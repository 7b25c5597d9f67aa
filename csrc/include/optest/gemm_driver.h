// How a product of packed operands is cut into pieces, and shared by threads. The kernels, of whatever
// dtype, come as pointers; included by one source file each.
#pragma once

#include "optest/gemm_piece.h"
#include "optest/parallel.h"
#include "optest/tensor.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

namespace optest {

inline constexpr int64_t kScaleBlock = 128;  // k, and rows of w, that share a scale
inline constexpr int64_t kRowsAtATime = 256;
inline constexpr int64_t kBlocksAtATime = 16;
inline constexpr int64_t kPackedBytes = 1 << 20;  // of x at a time: they stay in a core's own cache

struct GemmKernels {
  int64_t x_block;     // bytes of 16 packed rows by 64 k
  int64_t w_block;     // bytes of 16 packed rows of weights by 64 k
  int64_t wide_block;  // bytes of a block of weights in the dtype that the unit multiplies
  void (*pack_x)(const void* x, int64_t row_bytes, int64_t rows, int64_t depth, char* to);
  void (*dot)(const Piece& piece);
  void (*add_scaled)(const void* sums, float* totals, int64_t rows, const float* x_scale,
                     int64_t x_scale_row, float w_scale);
  void (*finish_sums)(const void* sums, const float* x_scale, const float* w_scale, int64_t rows,
                      int64_t columns, void* out, int64_t out_row);
  void (*finish_totals)(const void* sums, const float* x_scale, const float* w_scale, int64_t rows,
                        int64_t columns, void* out, int64_t out_row);
  void (*open)() = nullptr;
  void (*close)() = nullptr;
  bool tile_in_place = false;  // one tile of rows is multiplied without wide weights
};

// A [.., rows, columns] tensor of which the columns lie side by side.
struct Matrices {
  Matrices(const char* name, const Tensor& tensor)
      : batch(tensor.dim() == 3 ? tensor.size(0) : 1),
        rows(tensor.size(tensor.dim() - 2)),
        columns(tensor.size(tensor.dim() - 1)),
        element(static_cast<int64_t>(tensor.element_size())),
        batch_bytes(tensor.dim() == 3 ? tensor.stride(0) * element : 0),
        row_bytes(tensor.stride(tensor.dim() - 2) * element),
        data(static_cast<char*>(tensor.data_ptr())) {
    check_dense_last(name, tensor);
  }

  char* row(int64_t b, int64_t r) const { return data + b * batch_bytes + r * row_bytes; }

  int64_t batch;
  int64_t rows;
  int64_t columns;
  int64_t element;
  int64_t batch_bytes;
  int64_t row_bytes;
  char* data;
};

inline int64_t divided(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Weights of T as panels of kTile rows by kernels that take (rows, row_bytes, how many, k, where to).
template <class T, class Pack>
void pack_panels(const Tensor& packed, const Matrices& from, const Pack& pack) {
  const int64_t panels = divided(from.rows, kTile);
  const int64_t length = divided(from.columns, kDepth) * kBlockBytes;
  check(packed.is_contiguous() && packed.numel() == from.batch * panels * length,
        "packed has shape ", shape_of(packed), ", expected ", from.batch * panels * length,
        " contiguous elements");
  T* const to = static_cast<T*>(packed.data_ptr());
  const int64_t bytes = std::max(length * static_cast<int64_t>(sizeof(T)), kDepth);
  parallel_pieces(from.batch * panels, (256 << 10) / bytes, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i % panels * kTile;
      pack(reinterpret_cast<const T*>(from.row(i / panels, row)), from.row_bytes,
           std::min(kTile, from.rows - row), from.columns, to + i * length);
    }
  });
}

// One call: operands that were checked.
struct Gemm {
  GemmKernels kernels;
  Matrices out;
  Matrices x;
  const uint8_t* w;
  const float* x_scale;
  const float* w_scale;
  const uint8_t* w_powers;  // packed scales that are powers of two; null where there are none
  bool by_blocks;           // of kScaleBlock k

  int64_t blocks() const { return divided(x.columns, kDepth); }
  int64_t panels() const { return divided(out.columns, kTile); }
  int64_t panel_bytes() const { return blocks() * kernels.w_block; }
  bool by_rows() const { return !by_blocks && w_scale != nullptr; }
  int64_t scale_blocks() const { return divided(x.columns, kScaleBlock); }
};

// Rows of x of some batches over some k, packed, and the sums that go on to the next k.
struct Step {
  int64_t batch, batches;
  int64_t row, rows;
  int64_t block, blocks;
  char* x;
  char* sums;  // of every pair of panels of every batch; null where no k follows or went before

  int64_t tiles() const { return divided(rows, kTile); }
  int64_t row_pairs() const { return divided(tiles(), 2); }
};

inline std::unique_ptr<char[]> room_of(int64_t bytes) {
  return std::unique_ptr<char[]>(new char[static_cast<size_t>(bytes)]);
}

inline void pack_tile(const Gemm& gemm, const Step& step, int64_t i) {
  const int64_t first = step.block * kDepth;
  const int64_t depth = std::min(gemm.x.columns - first, step.blocks * kDepth);
  const int64_t row = i % step.tiles() * kTile;
  const char* const from =
      gemm.x.row(step.batch + i / step.tiles(), step.row + row) + first * gemm.x.element;
  gemm.kernels.pack_x(from, gemm.x.row_bytes, std::min(kTile, step.rows - row), depth,
                      step.x + i * step.blocks * gemm.kernels.x_block);
}

inline void pack_rows(const Gemm& gemm, const Step& step) {
  const int64_t tile_bytes = step.blocks * gemm.kernels.x_block;
  const int64_t piece = std::max<int64_t>(1, (64 << 10) / tile_bytes);
  parallel_pieces(step.batches * step.tiles(), piece, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) pack_tile(gemm, step, i);
  });
}

// Two panels by the rows of a step, on one thread.
class Item {
 public:
  Item(const Gemm& gemm, const Step& step)
      : gemm_(gemm),
        step_(step),
        wide_panel_(kBlocksAtATime * gemm.kernels.wide_block),
        pair_bytes_(kPieceSums * 4),
        own_(room_of(pair_bytes_ * (step.row_pairs() + 1) + 2 * wide_panel_ + 64)),
        part_(own_.get() + (-reinterpret_cast<uintptr_t>(own_.get()) & 63u)) {}

  void run(int64_t index) {
    const int64_t pairs_of_panels = divided(gemm_.panels(), 2);
    batch_ = index / pairs_of_panels;
    panel_ = index % pairs_of_panels * 2;
    panels_ = std::min<int64_t>(2, gemm_.panels() - panel_);
    sums_ = step_.sums == nullptr ? part_ + pair_bytes_
                                  : step_.sums + index * step_.row_pairs() * pair_bytes_;
    if (gemm_.by_blocks && step_.block == 0) {
      std::memset(sums_, 0, static_cast<size_t>(step_.row_pairs() * pair_bytes_));
    }
    const int64_t some = blocks_at_a_time();
    for (int64_t b = 0; b < step_.blocks; b += some) {
      for (int64_t pair = 0; pair < step_.row_pairs(); ++pair) {
        multiply(pair, b, std::min(some, step_.blocks - b));
      }
    }
    if (step_.block + step_.blocks == gemm_.blocks()) finish();
  }

 private:
  int64_t rows_of(int64_t pair) const {
    return std::min(2 * kTile, step_.rows - pair * 2 * kTile);
  }

  int64_t blocks_at_a_time() const {
    if (gemm_.by_blocks) return kScaleBlock / kDepth;
    return gemm_.kernels.tile_in_place && step_.rows <= kTile ? step_.blocks : kBlocksAtATime;
  }

  void multiply(int64_t pair, int64_t block, int64_t blocks) {
    const GemmKernels& kernels = gemm_.kernels;
    const int64_t tile_bytes = step_.blocks * kernels.x_block;
    const int64_t tile = batch_ * step_.tiles() + pair * 2;
    const int64_t at = step_.block + block;
    const int64_t panel = (step_.batch + batch_) * gemm_.panels() + panel_;
    char* const sums = sums_ + pair * pair_bytes_;
    char* const wide = part_ + pair_bytes_ * (step_.row_pairs() + 1);
    kernels.dot({step_.x + tile * tile_bytes + block * kernels.x_block,
                 tile_bytes,
                 gemm_.w + panel * gemm_.panel_bytes() + at * kernels.w_block,
                 gemm_.panel_bytes(),
                 powers(panel, at),
                 kScalesPerBlock * gemm_.blocks(),
                 blocks,
                 rows_of(pair),
                 panels_,
                 !gemm_.by_blocks && at > 0,
                 gemm_.by_blocks ? part_ : sums,
                 wide,
                 wide_panel_,
                 pair == 0});
    if (gemm_.by_blocks) add_scaled(pair, at * kDepth / kScaleBlock, sums);
  }

  const uint8_t* powers(int64_t panel, int64_t block) const {
    if (gemm_.w_powers == nullptr) return nullptr;
    return gemm_.w_powers + (panel * gemm_.blocks() + block) * kScalesPerBlock;
  }

  template <class Body>
  void for_tiles(int64_t pair, const Body& body) const {
    for (int64_t t = 0; t * kTile < rows_of(pair); ++t) {
      for (int64_t p = 0; p < panels_; ++p) {
        body((t * 2 + p) * kTileSums * 4, step_.row + (pair * 2 + t) * kTile,
             std::min(kTile, rows_of(pair) - t * kTile), (panel_ + p) * kTile);
      }
    }
  }

  void add_scaled(int64_t pair, int64_t scale_block, char* totals) const {
    const int64_t across = gemm_.scale_blocks();
    for_tiles(pair, [&](int64_t offset, int64_t row, int64_t rows, int64_t column) {
      gemm_.kernels.add_scaled(part_ + offset, reinterpret_cast<float*>(totals + offset), rows,
                               gemm_.x_scale + row * across + scale_block, across,
                               gemm_.w_scale[column / kScaleBlock * across + scale_block]);
    });
  }

  void finish() const {
    const int64_t batch = step_.batch + batch_;
    const Matrices& out = gemm_.out;
    const bool scaled = gemm_.by_rows();
    const auto kernel = gemm_.by_blocks ? gemm_.kernels.finish_totals : gemm_.kernels.finish_sums;
    for (int64_t pair = 0; pair < step_.row_pairs(); ++pair) {
      for_tiles(pair, [&](int64_t offset, int64_t row, int64_t rows, int64_t column) {
        const float* const by_row = scaled ? gemm_.x_scale + batch * out.rows + row : nullptr;
        const float* const by_column =
            scaled ? gemm_.w_scale + batch * out.columns + column : nullptr;
        char* const to = out.row(batch, row) + column * out.element;
        kernel(sums_ + pair * pair_bytes_ + offset, by_row, by_column,
               rows, std::min(kTile, out.columns - column), to, out.row_bytes);
      });
    }
  }

  const Gemm& gemm_;
  const Step& step_;
  int64_t wide_panel_;
  int64_t pair_bytes_;
  std::unique_ptr<char[]> own_;
  char* part_;  // sums of one block of scales; then sums of the step; then widened weights
  char* sums_ = nullptr;
  int64_t batch_ = 0;
  int64_t panel_ = 0;
  int64_t panels_ = 0;
};

// Pairs of panels on one thread at a time: bytes enough to hide the hand-over, few enough to share evenly.
inline int64_t panels_at_a_time(const Gemm& gemm, int64_t blocks, int64_t count) {
  constexpr int64_t shortest = 64 << 10, longest = 256 << 10;
  const int64_t bytes = 2 * blocks * gemm.kernels.w_block;
  const int64_t even = count * bytes / (8 * torch::stable::get_num_threads());
  return std::max<int64_t>(1, std::min(std::max(even, shortest), longest) / bytes);
}

// Calls body on all threads with pieces of `count`, the unit being open.
template <class Body>
void with_unit(const GemmKernels& kernels, int64_t count, int64_t piece, const Body& body) {
  parallel_pieces(count, piece, [&](int64_t begin, int64_t end) {
    if (kernels.open != nullptr) kernels.open();
    body(begin, end);
    if (kernels.close != nullptr) kernels.close();
  });
}

inline void multiply_panels(const Gemm& gemm, const Step& step) {
  const int64_t items = step.batches * divided(gemm.panels(), 2);
  with_unit(gemm.kernels, items, panels_at_a_time(gemm, step.blocks, items),
            [&](int64_t begin, int64_t end) {
              Item item(gemm, step);
              for (int64_t i = begin; i < end; ++i) item.run(i);
            });
}

inline void zero(const Matrices& out) {
  for (int64_t i = 0; i < out.batch * out.rows; ++i) {
    char* const row = out.row(i / out.rows, i % out.rows);
    std::memset(row, 0, static_cast<size_t>(out.columns * out.element));
  }
}

inline char* aligned(char* at) { return at + (-reinterpret_cast<uintptr_t>(at) & 63u); }

inline void multiply(const Gemm& gemm) {
  const Matrices& out = gemm.out;
  if (out.batch * out.rows * out.columns == 0) return;
  if (gemm.blocks() == 0) return zero(out);
  const int64_t rows = std::min(out.rows, kRowsAtATime);
  const int64_t slab = divided(rows, kTile) * gemm.kernels.x_block;  // bytes a block of k
  const int64_t even = std::max<int64_t>(2, kPackedBytes / slab / 2 * 2);
  const int64_t blocks = std::min(gemm.blocks(), even);
  const bool all_k = blocks == gemm.blocks();
  const int64_t batches = std::min(out.batch, std::max<int64_t>(1, kPackedBytes / (slab * blocks)));
  const auto x = room_of(batches * slab * blocks + 64);
  const int64_t sums_bytes = batches * divided(gemm.panels(), 2) * divided(rows, 2 * kTile);
  const auto sums = all_k ? nullptr : room_of(sums_bytes * kPieceSums * 4 + 64);
  for (int64_t batch = 0; batch < out.batch; batch += batches) {
    for (int64_t row = 0; row < out.rows; row += rows) {
      for (int64_t block = 0; block < gemm.blocks(); block += blocks) {
        const Step step{batch, std::min(batches, out.batch - batch),
                        row, std::min(rows, out.rows - row),
                        block, std::min(blocks, gemm.blocks() - block),
                        aligned(x.get()), all_k ? nullptr : aligned(sums.get())};
        pack_rows(gemm, step);
        multiply_panels(gemm, step);
      }
    }
  }
}

// Bytes of x, packed, of so many rows.
inline int64_t packed_bytes(const Gemm& gemm, int64_t rows) {
  return divided(rows, kTile) * gemm.kernels.x_block * gemm.blocks();
}

// Several products by different weights of one shape, which all threads share as one: of up to
// kRowsAtATime rows each, whose x, packed, take kPackedBytes together.
inline void multiply_together(const std::vector<Gemm>& gemms) {
  if (gemms.size() == 1) return multiply(gemms[0]);
  const Gemm& any = gemms[0];
  if (any.panels() * any.blocks() == 0) {
    for (const Gemm& gemm : gemms) multiply(gemm);
    return;
  }
  const auto x = room_of(kPackedBytes + 64);
  std::vector<Step> steps;
  char* to = aligned(x.get());
  for (const Gemm& gemm : gemms) {
    steps.push_back({0, 1, 0, gemm.out.rows, 0, gemm.blocks(), to, nullptr});
    to += packed_bytes(gemm, gemm.out.rows);
  }
  const auto count = static_cast<int64_t>(gemms.size());
  parallel_pieces(count, 4, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      for (int64_t t = 0; t < steps[i].tiles(); ++t) pack_tile(gemms[i], steps[i], t);
    }
  });
  const int64_t items = divided(any.panels(), 2);
  const int64_t piece = panels_at_a_time(any, any.blocks(), count * items);
  with_unit(any.kernels, count * items, piece,
            [&](int64_t begin, int64_t end) {
              for (int64_t i = begin; i < end;) {
                const auto at = static_cast<size_t>(i / items);
                Item item(gemms[at], steps[at]);
                const int64_t last = std::min(end, (i / items + 1) * items);
                for (; i < last; ++i) item.run(i % items);
              }
            });
}

}  // namespace optest
