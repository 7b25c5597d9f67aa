// Attention of one query a sequence over a paged cache, sums in fp32 and rounded once:
//
//     out[s, h] = sum_t softmax_t(scale * q[s, h] . key[t, h / group]) * value[t, h / group]
//
// over the context_lens[s] tokens of sequence s; token t lies in block block_tables[s, t / block_size] of
// the caches, at position t % block_size. pa_decode: q and out [sequences, heads, size] (bf16, fp16 or fp32),
// caches [blocks, block_size, kv_heads, size] of the same dtype, e4m3fn or e4m3fnuz, group = heads / kv_heads;
// a key is what its cache holds times k_scale, a value what its cache holds times v_scale.
// mla_decode: one cache [blocks, block_size, size] for all heads, whose first numbers, as many as out has
// in a row, are the values too. The last dimension is dense, the others may have any stride. A sequence of
// no tokens (padding of a batch) gives zeros.
//
// The cache is read once: a tile of tokens serves all queries of a group while it is near. Contexts are
// cut into pieces that threads share, and the pieces' results are merged. AMX, where the CPU has it, multiplies
// for large groups of a bf16 cache; where it has dot products of pairs of bf16, they make the scores of bf16
// queries over bf16 and codes, and sum the values of codes by probabilities rounded to bf16.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "optest/attention_tile.h"
#include "optest/dot_units.h"
#include "optest/gemm_piece.h"
#include "optest/parallel.h"
#include "optest/tensor.h"
#include "optest/types.h"

#define OPTEST_KERNELS "../../attention_kernels.inl"
#include "optest/each_isa.h"

namespace optest {
namespace {

// With fewer queries of a KV head, packing tiles takes as long as these save.
constexpr int64_t kQueriesForTiles = 9;

struct Kernels {
  bool tiled;
  decltype(&portable::attend<float>) attend;
  decltype(&portable::query_bytes) query_bytes;
  decltype(&portable::pack_queries<float, float>) pack_queries;
  decltype(&portable::merge_parts<float, float>) merge_parts;
  decltype(&portable::room_of) room_of;
  decltype(&portable::score_bytes) spare_bytes;
  void (*open)() = nullptr;
  void (*close)() = nullptr;
};

// Of queries of T and a cache of C.
template <class T, class C>
Kernels kernels_of(int64_t group) {
  Kernels kernels{false,
                  OPTEST_SELECT(attend<C>),
                  OPTEST_SELECT(query_bytes),
                  OPTEST_SELECT(pack_queries<T, C>),
                  OPTEST_SELECT(merge_parts<T, C>),
                  OPTEST_SELECT(room_of),
                  OPTEST_SELECT(score_bytes)};
#if defined(OPTEST_X86)
  if constexpr (std::is_same_v<T, Bf16>) {
    if (current_dot_unit() >= DotUnit::bf16) {
      kernels.attend = &avx512::attend<C, avx512::OfPairs<C>>;
      kernels.query_bytes = &avx512::pair_query_bytes;
      kernels.pack_queries = &avx512::pack_pairs;
    }
  }
  if (std::is_same_v<C, Bf16> && group >= kQueriesForTiles &&
      current_dot_unit() == DotUnit::amx) {
    kernels.tiled = true;
    kernels.attend = &avx512::attend_tiled;
    kernels.query_bytes = &avx512::tiled_query_bytes;
    kernels.pack_queries = &avx512::tile_queries;
    kernels.spare_bytes = &avx512::tiled_spare;
    kernels.open = &avx512::open_tiles;
    kernels.close = &avx512::close_tiles;
  }
#else
  (void)group;
#endif
  return kernels;
}

Kernels kernels_for(const Tensor& q, ScalarType cached, int64_t group) {
  return by_float_dtype("q", q, [&](auto element) {
    using T = decltype(element);
    if (cached == ScalarType::Float8_e4m3fn) return kernels_of<T, E4m3fn>(group);
    if (cached == ScalarType::Float8_e4m3fnuz) return kernels_of<T, E4m3fnuz>(group);
    return kernels_of<T, T>(group);
  });
}

// By what the products with keys, and their sums with values, are multiplied.
struct Scales {
  double scores;
  double values = 1.0;
};

// A paged cache, in bytes: [blocks, block_size, kv_heads, size], or without heads.
struct Cache {
  Cache(const char* name, const Tensor& cache, const Tensor& q)
      : data(static_cast<const char*>(cache.data_ptr())), dtype(cache.scalar_type()) {
    const int64_t last = cache.dim() - 1;
    check(cache.size(last) == q.size(2), name, " has shape ", shape_of(cache),
          ", expected [blocks, block_size, ", last == 3 ? "kv_heads, " : "", q.size(2), "]");
    check_dense_last(name, cache);
    const int64_t bytes = static_cast<int64_t>(cache.element_size());
    block_step = cache.stride(0) * bytes;
    position_step = cache.stride(1) * bytes;
    if (last == 3) {
      head_step = cache.stride(2) * bytes;
      heads = cache.size(2);
    }
  }

  int64_t offset(int64_t block, int64_t position) const {
    return block * block_step + position * position_step;
  }

  const char* data;
  ScalarType dtype;
  int64_t block_step, position_step;
  int64_t head_step = 0, heads = 1;
};

// The tokens of all sequences: which block holds each.
struct Tokens {
  Tokens(const Tensor& block_tables, const Tensor& context_lens, const Tensor& cache,
         int64_t sequences)
      : block_size(cache.size(1)) {
    check_dtype("block_tables", block_tables, ScalarType::Int);
    check_dtype("context_lens", context_lens, ScalarType::Int);
    check(block_tables.dim() == 2 && block_tables.size(0) == sequences, "block_tables has shape ",
          shape_of(block_tables), ", expected [", sequences, ", blocks of a sequence]");
    check(context_lens.dim() == 1 && context_lens.size(0) == sequences, "context_lens has shape ",
          shape_of(context_lens), ", expected [", sequences, "]");
    check(context_lens.is_contiguous(), "context_lens has strides, expected a contiguous tensor");
    check_dense_last("block_tables", block_tables);
    tables = static_cast<const int32_t*>(block_tables.data_ptr());
    table_step = block_tables.stride(0);
    lengths = static_cast<const int32_t*>(context_lens.data_ptr());
    for (int64_t s = 0; s < sequences; ++s) {
      check_sequence(s, block_tables.size(1), cache.size(0));
    }
  }

  void check_sequence(int64_t s, int64_t most, int64_t cached) const {
    check(lengths[s] >= 0 && lengths[s] <= most * block_size, "context_lens[", s, "] is ",
          lengths[s], ", expected 0 to ", most * block_size, ", the tokens of its block table");
    for (int64_t i = 0; i * block_size < lengths[s]; ++i) {
      const int32_t block = tables[s * table_step + i];
      check(block >= 0 && block < cached, "block_tables[", s, ", ", i, "] is ", block,
            ", expected 0 to ", cached - 1, ", the blocks of the caches");
    }
  }

  // Calls put(i, block, position) for the `tile` tokens from `first` on; where there are fewer before
  // `end`, the last one is repeated.
  template <class Put>
  void locate(int64_t s, int64_t first, int64_t end, int64_t tile, const Put& put) const {
    const int32_t* const table = tables + s * table_step;
    int64_t token = std::min(first, end - 1);
    int64_t column = token / block_size;
    int64_t position = token % block_size;
    for (int64_t i = 0; i < tile; ++i) {
      put(i, table[column], position);
      if (token + 1 == end) continue;
      ++token;
      if (++position == block_size) {
        position = 0;
        ++column;
      }
    }
  }

  const int32_t* tables;
  const int32_t* lengths;
  int64_t table_step;
  int64_t block_size;
};

struct Piece {
  int64_t sequence, begin, end;
};

// All contexts in pieces of one length, a few for each thread: none so short that merging would tell.
std::vector<Piece> cut(const Tokens& tokens, int64_t sequences, int64_t tile) {
  constexpr int64_t least = 64, most = 2048;
  int64_t all = 0;
  for (int64_t s = 0; s < sequences; ++s) all += tokens.lengths[s];
  const int64_t even = all / (8 * torch::stable::get_num_threads());
  const int64_t longest = std::max(std::clamp(even, least, most) / tile, int64_t{1}) * tile;
  std::vector<Piece> pieces;
  for (int64_t s = 0; s < sequences; ++s) {
    for (int64_t t = 0; t < tokens.lengths[s]; t += longest) {
      pieces.push_back({s, t, std::min<int64_t>(tokens.lengths[s], t + longest)});
    }
  }
  return pieces;
}

struct Decode {
  Decode(const Tensor& out, const Tensor& q, const Cache& key_cache, const Cache& value_cache,
         const Tokens& of_all, const Scales& scales)
      : keys(key_cache),
        values(value_cache),
        tokens(of_all),
        from("q", q),
        head_step(q.stride(1) * static_cast<int64_t>(q.element_size())),
        to("out", out),
        heads(q.size(1)),
        group(heads / std::max(keys.heads, int64_t{1})),
        kernels(kernels_for(q, keys.dtype, group)),
        tile(kernels.tiled ? tokens_of_tile() : kTileTokens),
        room(kernels.room_of(out.size(2))),
        query_bytes(kernels.query_bytes(group, q.size(2))),
        factor(static_cast<float>(scales.scores * 1.4426950408889634)),
        value_scale(static_cast<float>(scales.values)) {}

  // As many as let a tile of all heads and the next one lie in a core's own cache.
  int64_t tokens_of_tile() const {
    constexpr int64_t bytes = 192 << 10;
    const int64_t row = from.length() + (keys.data == values.data ? 0 : to.length());
    const int64_t fit = bytes / std::max(keys.heads * row * from.element_bytes(), int64_t{1});
    return std::clamp(fit / kTileTokens * kTileTokens, kTileTokens, kMostTileTokens);
  }

  Heads all_heads() const {
    return {keys.heads, group, keys.head_step, values.head_step, query_bytes};
  }

  // Numbers that a piece leaves: a row of sums, a largest score and a total for each query.
  int64_t results() const { return heads * (room + 2); }

  void attend(const Piece& piece, float* sums) const {
    const int64_t all_queries = keys.heads * query_bytes;
    const int64_t spare = kernels.spare_bytes(from.length(), to.length(), all_heads());
    const std::unique_ptr<char[]> own(new char[static_cast<size_t>(all_queries + spare + 64)]);
    char* const queries = own.get() + (-reinterpret_cast<uintptr_t>(own.get()) & 63u);
    for (int64_t h = 0; h < keys.heads; ++h) {
      kernels.pack_queries(
          {from.row(piece.sequence * heads + h * group), head_step, group, from.length()},
          queries + h * query_bytes);
    }
    float* const largest = sums + heads * room;
    std::fill(sums, sums + results(), 0.0f);
    std::fill(largest, largest + heads, -INFINITY);
    if (kernels.open != nullptr) kernels.open();
    attend_tiles(piece, {queries, sums, largest, largest + heads, from.length(), room, to.length(),
                         factor, queries + all_queries});
    if (kernels.close != nullptr) kernels.close();
  }

  void attend_tiles(const Piece& piece, const Softmax& run) const {
    int64_t key_rows[2][kMostTileTokens];
    int64_t value_rows[2][kMostTileTokens];
    const auto locate = [&](int64_t first, int which) {
      tokens.locate(piece.sequence, first, piece.end, tile,
                    [&](int64_t i, int64_t block, int64_t position) {
                      key_rows[which][i] = keys.offset(block, position);
                      value_rows[which][i] = values.offset(block, position);
                    });
    };
    locate(piece.begin, 0);
    int now = 0;
    for (int64_t t = piece.begin; t < piece.end; t += tile, now = 1 - now) {
      locate(t + tile, 1 - now);
      // The pages first, all at once: to find them takes longer than to fetch a line, which is asked
      // for beside the work on this tile.
      for (int64_t i = 0; i < tile; ++i) {
        __builtin_prefetch(keys.data + key_rows[1 - now][i], 0, 2);
        __builtin_prefetch(values.data + value_rows[1 - now][i], 0, 2);
      }
      const int64_t count = std::min(tile, piece.end - t);
      kernels.attend({keys.data, key_rows[now], key_rows[1 - now]},
                     {values.data, value_rows[now], value_rows[1 - now]}, count, run, all_heads());
    }
  }

  // All heads of a sequence, from what its pieces left: the first one's is at `sums`.
  void merge(int64_t sequence, float* sums, int64_t pieces) const {
    const float* const largest = sums + heads * room;
    for (int64_t h = 0; h < heads; ++h) {
      char* const row = to.row(sequence * heads + h);
      if (pieces == 0) {
        std::memset(row, 0, static_cast<size_t>(to.row_bytes()));
      } else {
        kernels.merge_parts(
            {sums + h * room, largest + h, largest + heads + h, pieces, results(), room, value_scale},
            row, to.length());
      }
    }
  }

  Cache keys, values;
  Tokens tokens;
  Rows from;
  int64_t head_step;
  Rows to;
  int64_t heads, group;
  Kernels kernels;
  int64_t tile;  // tokens
  int64_t room;
  int64_t query_bytes;  // of a group
  float factor;         // of the scores: the scales, and log2(e)
  float value_scale;
};

void check_queries(const Tensor& q) {
  check_float_dtype("q", q);
  check(q.dim() == 3, "q has shape ", shape_of(q), ", expected [sequences, heads, size]");
}

void check_shapes(const Tensor& out, const Tensor& q, const Tensor& key_cache,
                  const Tensor& value_cache) {
  check_queries(q);
  check_same_shape("out", out, q);
  check_dtype("out", out, q.scalar_type());
  check(key_cache.dim() == 4, "key_cache has shape ", shape_of(key_cache),
        ", expected [blocks, block_size, kv_heads, size]");
  check_same_shape("value_cache", value_cache, key_cache);
  const int64_t kv_heads = key_cache.size(2);
  check(q.size(1) == 0 || (kv_heads > 0 && q.size(1) % kv_heads == 0), "q has ", q.size(1),
        " heads, expected a multiple of the ", kv_heads, " of key_cache");
}

void check_cache_dtypes(const Tensor& key_cache, const Tensor& value_cache, const Tensor& q) {
  const ScalarType dtype = key_cache.scalar_type();
  check(dtype == q.scalar_type() || dtype == ScalarType::Float8_e4m3fn ||
            dtype == ScalarType::Float8_e4m3fnuz,
        "key_cache has dtype ", torch::headeronly::toString(dtype), ", expected ",
        torch::headeronly::toString(q.scalar_type()),
        " as q has, Float8_e4m3fn or Float8_e4m3fnuz");
  check_dtype("value_cache", value_cache, dtype);
}

void run(const Decode& decode, const Tokens& tokens, int64_t sequences) {
  const std::vector<Piece> pieces = cut(tokens, sequences, decode.tile);
  const int64_t results = decode.results();
  const std::unique_ptr<float[]> left(new float[pieces.size() * static_cast<size_t>(results)]);
  parallel_pieces(static_cast<int64_t>(pieces.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) decode.attend(pieces[i], left.get() + i * results);
  });
  std::vector<int64_t> first(static_cast<size_t>(sequences) + 1);
  for (const Piece& piece : pieces) ++first[piece.sequence + 1];
  for (int64_t s = 0; s < sequences; ++s) first[s + 1] += first[s];
  parallel_pieces(sequences, 1, [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) {
      decode.merge(s, left.get() + first[s] * results, first[s + 1] - first[s]);
    }
  });
}

void pa_decode(Tensor out, Tensor q, Tensor key_cache, Tensor value_cache, Tensor block_tables,
               Tensor context_lens, double scale, double k_scale, double v_scale) {
  check_shapes(out, q, key_cache, value_cache);
  check_cache_dtypes(key_cache, value_cache, q);
  const Tokens tokens(block_tables, context_lens, key_cache, q.size(0));
  const Cache keys("key_cache", key_cache, q);
  const Cache values("value_cache", value_cache, q);
  const Decode decode(out, q, keys, values, tokens, {scale * k_scale, v_scale});
  if (out.numel() > 0) run(decode, tokens, q.size(0));
}

void mla_decode(Tensor out, Tensor q, Tensor cache, Tensor block_tables, Tensor context_lens,
                double scale) {
  check_queries(q);
  check(out.dim() == 3 && out.size(0) == q.size(0) && out.size(1) == q.size(1) &&
            out.size(2) <= q.size(2),
        "out has shape ", shape_of(out), ", expected [", q.size(0), ", ", q.size(1),
        ", rank], rank at most ", q.size(2));
  check_dtype("out", out, q.scalar_type());
  check(cache.dim() == 3, "cache has shape ", shape_of(cache), ", expected [blocks, block_size, ",
        q.size(2), "]");
  check_dtype("cache", cache, q.scalar_type());
  const Cache latent("cache", cache, q);
  const Tokens tokens(block_tables, context_lens, cache, q.size(0));
  const Decode decode(out, q, latent, latent, tokens, {scale});
  if (out.numel() > 0) run(decode, tokens, q.size(0));
}

}  // namespace
}  // namespace optest

STABLE_TORCH_LIBRARY_FRAGMENT(optest, m) {
  m.def(
      "pa_decode(Tensor(a!) out, Tensor q, Tensor key_cache, Tensor value_cache, "
      "Tensor block_tables, Tensor context_lens, float scale, float k_scale=1.0, "
      "float v_scale=1.0) -> ()");
  m.def(
      "mla_decode(Tensor(a!) out, Tensor q, Tensor cache, Tensor block_tables, "
      "Tensor context_lens, float scale) -> ()");
  m.def("limit_attention_dot_unit(int unit) -> int");
}

STABLE_TORCH_LIBRARY_IMPL(optest, CPU, m) {
  m.impl("pa_decode", TORCH_BOX(&optest::pa_decode));
  m.impl("mla_decode", TORCH_BOX(&optest::mla_decode));
}

// No tensor tells the dispatcher a device here.
STABLE_TORCH_LIBRARY_IMPL(optest, CompositeExplicitAutograd, m) {
  m.impl("limit_attention_dot_unit", TORCH_BOX(&optest::limit_dot_unit));
}
