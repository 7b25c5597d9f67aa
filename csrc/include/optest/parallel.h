// Work on all threads of torch's intra-op pool: torch.set_num_threads() is honoured, no pool of our own.
#pragma once

#include "optest/abi.h"

#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace optest {

// Calls body(begin, end) for pieces of [0, count) of about `piece` items. Threads take the next piece
// when they are free, so a core that another process has slowed does not hold the rest up.
template <class Body>
void parallel_pieces(int64_t count, int64_t piece, const Body& body) {
  if (count <= 0) return;
  piece = std::max<int64_t>(piece, 1);
  if (count <= piece) {
    body(int64_t{0}, count);
    return;
  }
  const int64_t pieces = (count + piece - 1) / piece;
  const int64_t workers = std::min<int64_t>(torch::stable::get_num_threads(), pieces);
  std::atomic<int64_t> next{0};
  torch::stable::parallel_for(0, workers, 1, [&](int64_t, int64_t) {
    for (int64_t i = next++; i < pieces; i = next++) {
      body(i * piece, std::min(count, (i + 1) * piece));
    }
  });
}

// parallel_pieces for rows of `row_bytes` bytes: in pieces of 256 KiB or more, long enough to hide the
// hand-over, short enough to share a matrix of a few MiB evenly, and of at most 2 MiB.
template <class Body>
void parallel_rows(int64_t rows, int64_t row_bytes, const Body& body) {
  constexpr int64_t shortest = 256 * 1024;
  constexpr int64_t longest = 2 * 1024 * 1024;
  const int64_t even = rows * row_bytes / (8 * torch::stable::get_num_threads());
  const int64_t piece_bytes = std::min(std::max(even, shortest), longest);
  parallel_pieces(rows, piece_bytes / std::max<int64_t>(row_bytes, 1), body);
}

// Calls body(row, begin, end) for all elements of rows that need not stay whole: long ones are shared.
template <class Body>
void parallel_elements(int64_t rows, int64_t length, int64_t element_bytes, const Body& body) {
  constexpr int64_t longest = 64 * 1024;
  const int64_t parts = std::max<int64_t>((length + longest - 1) / longest, 1);
  const int64_t part_bytes = std::min(length, longest) * element_bytes;
  parallel_rows(rows * parts, part_bytes, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t begin = i % parts * longest;
      body(i / parts, begin, std::min(length, begin + longest));
    }
  });
}

}  // namespace optest
