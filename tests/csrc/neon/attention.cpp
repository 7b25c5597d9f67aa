// Attention of a group of queries over scattered tokens, in tiles and in parts, against fp64.

#include "check.h"
#include "codes.h"
#include "optest/attention_tile.h"

#define OPTEST_KERNELS "../../attention_kernels.inl"
#include "optest/each_isa.h"

using namespace check;
using optest::kTileTokens;
namespace neon = optest::neon;

struct Shape {
  int64_t group, tokens, key_size, value_size;
};
constexpr Shape kShapes[] = {{1, 1, 1, 1},    {1, 31, 7, 5},   {2, 33, 64, 64},   {3, 65, 13, 8},
                             {4, 100, 80, 9}, {5, 127, 96, 64}, {9, 200, 128, 128}};

constexpr double kValueScale = 0.75;

// Tokens' rows in an order of their own.
template <class T>
struct Scattered {
  Scattered(Random& random, int64_t tokens, int64_t size_of_row)
      : size(size_of_row), rows(numbers<T>(random, tokens * size_of_row)) {
    for (int64_t t = 0; t < tokens; ++t) places.push_back(t);
    for (int64_t t = tokens - 1; t > 0; --t) {
      std::swap(places[static_cast<size_t>(t)], places[static_cast<size_t>(random.below(t + 1))]);
    }
  }

  // Offsets of a tile's rows in bytes; beyond the end the last one again.
  void locate(int64_t first, int64_t* at) const {
    for (int64_t i = 0; i < kTileTokens; ++i) {
      const size_t token = std::min(static_cast<size_t>(first + i), places.size() - 1);
      at[i] = places[token] * size * static_cast<int64_t>(sizeof(T));
    }
  }
  double at(int64_t token, int64_t i) const {
    return wide(rows[places[static_cast<size_t>(token)] * size + i]);
  }
  const char* base() const { return reinterpret_cast<const char*>(rows.data()); }

  int64_t size;
  Room<T> rows;
  std::vector<int64_t> places;
};

template <class T, class C>
std::vector<double> attended(const Room<T>& q, const Scattered<C>& keys, const Scattered<C>& values,
                             int64_t query, double scale) {
  std::vector<double> powers, out(static_cast<size_t>(values.size));
  double largest = -HUGE_VAL, total = 0;
  for (size_t t = 0; t < keys.places.size(); ++t) {
    double score = 0;
    for (int64_t i = 0; i < keys.size; ++i) {
      score += wide(q[query * keys.size + i]) * keys.at(static_cast<int64_t>(t), i);
    }
    powers.push_back(score * scale);
    largest = std::max(largest, powers.back());
  }
  for (double& power : powers) total += power = std::exp(power - largest);
  for (size_t t = 0; t < powers.size(); ++t) {
    for (size_t i = 0; i < out.size(); ++i) {
      const double value = values.at(static_cast<int64_t>(t), static_cast<int64_t>(i));
      out[i] += powers[t] / total * kValueScale * value;
    }
  }
  return out;
}

template <class T, class C>
void check_shape(Verdict& verdict, Random& random, const Shape& shape) {
  const double scale = 1 / std::sqrt(static_cast<double>(shape.key_size));
  const Room<T> q = numbers<T>(random, shape.group * shape.key_size, 2.0);
  const Scattered<C> keys(random, shape.tokens, shape.key_size);
  const Scattered<C> values(random, shape.tokens, shape.value_size);
  const int64_t room = neon::room_of(shape.value_size);
  const Room<char> queries(neon::query_bytes(shape.group, shape.key_size));
  neon::pack_queries<T, C>({reinterpret_cast<const char*>(q.data()),
                            shape.key_size * static_cast<int64_t>(sizeof(T)), shape.group,
                            shape.key_size},
                           queries.data());
  const optest::Heads heads{1, shape.group, 0, 0, 0};
  const Room<char> spare(neon::score_bytes(shape.key_size, shape.value_size, heads));
  const int64_t parts = shape.tokens > 40 ? 2 : 1, step = shape.group * (room + 2);
  const Room<float> made(parts * step);
  for (int64_t p = 0; p < parts; ++p) {  // the second part has all tiles but the first
    float* const sums = made.data() + p * step;
    float* const largest = sums + shape.group * room;
    std::fill(sums, sums + step, 0.0f);
    std::fill(largest, largest + shape.group, -INFINITY);
    const int64_t end = parts == 2 && p == 0 ? kTileTokens : shape.tokens;
    for (int64_t first = p * kTileTokens; first < end; first += kTileTokens) {
      int64_t key_rows[kTileTokens], value_rows[kTileTokens];
      keys.locate(first, key_rows);
      values.locate(first, value_rows);
      neon::attend<C>({keys.base(), key_rows, key_rows}, {values.base(), value_rows, value_rows},
                      std::min(kTileTokens, end - first),
                      {queries.data(), sums, largest, largest + shape.group, shape.key_size, room,
                       shape.value_size, static_cast<float>(scale / M_LN2), spare.data()},
                      heads);
    }
  }
  for (int64_t h = 0; h < shape.group; ++h) {
    float* const largest = made.data() + shape.group * room;
    const Room<T> out(shape.value_size);
    neon::merge_parts<T, C>({made.data() + h * room, largest + h, largest + shape.group + h, parts,
                             step, room, static_cast<float>(kValueScale)},
                            out.data(), shape.value_size);
    const std::vector<double> want = attended(q, keys, values, h, scale);
    for (int64_t i = 0; i < shape.value_size; ++i) {
      verdict.near("out", i, wide(out[i]), want[static_cast<size_t>(i)], 1.01 * kHalfStep<T>, 5e-6);
    }
  }
}

void check_power() {
  Verdict verdict("power_of_two");
  for (int i = 0; i <= 125000; i += 7) {
    const float x = static_cast<float>(-i) / 1000.0f;
    verdict.near("power", i, neon::power_of_two(neon::splat(x))[0], std::exp2(double{x}), 4e-7, 0);
  }
  verdict.near("far below", 0, neon::power_of_two(neon::splat(-INFINITY))[0], 0x1p-126, 0, 0);
  verdict.near("NaN", 0, neon::power_of_two(neon::splat(NAN))[0], NAN, 0, 0);
}

template <class C>
void check_codes() {
  Verdict verdict(std::string("load_pair of every ") + kCodeName<C>);
  for (int first = 0; first < 256; first += neon::kPair) {
    C codes[neon::kPair];
    for (int i = 0; i < neon::kPair; ++i) codes[i] = {static_cast<uint8_t>(first + i)};
    const neon::Pair pair = neon::load_pair(codes);
    for (int i = 0; i < neon::kPair; ++i) {
      verdict.near("code", first + i, (i % 2 ? pair.b : pair.a)[i / 2], wide(codes[i]), 0, 0);
    }
  }
}

template <class T, class C>
void check_attention(const char* cached) {
  Verdict verdict(std::string("attend, merge_parts ") + kName<T> + " over " + cached);
  Random random(36);
  for (const Shape& shape : kShapes) check_shape<T, C>(verdict, random, shape);
}

int main() {
  check_power();
  check_codes<optest::E4m3fn>();
  check_codes<optest::E4m3fnuz>();
  for_dtypes([](auto like) {
    using T = decltype(like);
    check_attention<T, T>("the same");
    check_attention<T, optest::E4m3fn>("e4m3fn");
    check_attention<T, optest::E4m3fnuz>("e4m3fnuz");
  });
  return exit_code();
}
