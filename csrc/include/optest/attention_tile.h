// What the kernels of attention_kernels.inl take.
#pragma once

#include <cstdint>

namespace optest {

constexpr int64_t kTileTokens = 32;
constexpr int64_t kMostTileTokens = 128;  // where a matrix unit multiplies

// Rows of a tile's tokens for the first head, as offsets in bytes, and those of the tile that follows.
struct TokenRows {
  const char* base;
  const int64_t* at;
  const int64_t* next;
};

// Queries that lie `step` bytes apart, each of `length` numbers.
struct QueryRows {
  const char* base;
  int64_t step, count, length;
};

// KV heads, each with its group of queries.
struct Heads {
  int64_t count, group;
  int64_t key_step, value_step;  // bytes from a token's row of one head to that of the next
  int64_t query_step;            // bytes from one group's packed queries to the next
};

// Where the softmax of all heads' queries stands. `queries` are of `query_length` numbers each, packed by the
// kernel's own pack_queries; `sums` are rows of `length`, each in its room.
struct Softmax {
  const char* queries;
  float* sums;
  float* largest;
  float* totals;
  int64_t query_length;
  int64_t room, length;
  float factor;  // of the scores: the scales, and log2(e), so that the softmax takes powers of two
  char* spare;   // the kernel's own room
};

// One query's results of `count` pieces, each `step` numbers after the one before.
struct Parts {
  float* sums;
  const float* largest;
  const float* totals;
  int64_t count;
  int64_t step;
  int64_t room;
  float value_scale;
};

}  // namespace optest
