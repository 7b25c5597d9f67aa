// Columns of the k largest of a row, read once: what is above a threshold is kept, which a sample of the
// row gives; where enough is kept, the best k of it stay, and the threshold is raised.

#include "optest/keys.inl"

// Which lanes are above a threshold, a bit each.
OPTEST_INLINE uint32_t lanes_above(I keys, int32_t threshold) {
#if defined(OPTEST_ISA_AVX512)
  return _mm512_cmpgt_epi32_mask((__m512i)keys, _mm512_set1_epi32(threshold));
#elif defined(OPTEST_ISA_AVX2)
  return static_cast<uint32_t>(_mm256_movemask_ps((__m256)(keys > threshold)));
#else
  const I mask = keys > threshold;
  uint32_t lanes = 0;
  for (int i = 0; i < kLanes; ++i) lanes |= (static_cast<uint32_t>(mask[i]) & 1u) << i;
  return lanes;
#endif
}

// Numbers whose upper half is the key and whose lower half counts columns down, so that of equal keys the
// lower column is larger: no two are equal.
OPTEST_INLINE uint64_t ranked(int32_t key, int64_t column) {
  const uint64_t upper = static_cast<uint32_t>(key) ^ 0x80000000u;
  return upper << 32 | ~static_cast<uint32_t>(column);
}
OPTEST_INLINE int32_t key_of_ranked(uint64_t number) {
  return static_cast<int32_t>(static_cast<uint32_t>(number >> 32) ^ 0x80000000u);
}

// Brings those above a limit to the front; returns how many they are. No branch that depends on them.
template <class Above>
OPTEST_INLINE int64_t to_the_front(uint64_t* numbers, int64_t begin, int64_t end, const Above& above) {
  int64_t front = begin;
  for (int64_t i = begin; i < end; ++i) {
    const uint64_t number = numbers[i];
    numbers[i] = numbers[front];
    numbers[front] = number;
    front += above(number) ? 1 : 0;
  }
  return front;
}

// Leaves the k largest of some different numbers at the front, the least of them at k - 1. Counts them by
// size and goes on with those among which the k-th is.
inline void select_largest(uint64_t* numbers, int64_t count, int64_t k) {
  constexpr int64_t few = 128;
  constexpr int bits = 10;
  int64_t begin = 0;
  int64_t end = count;
  while (end - begin > few) {
    uint64_t least = numbers[begin];
    uint64_t most = least;
    for (int64_t i = begin; i < end; ++i) {
      least = numbers[i] < least ? numbers[i] : least;
      most = numbers[i] > most ? numbers[i] : most;
    }
    const int width = 64 - __builtin_clzll(most - least);
    const int shift = width > bits ? width - bits : 0;
    int32_t counts[1 << bits] = {};
    for (int64_t i = begin; i < end; ++i) ++counts[(numbers[i] - least) >> shift];
    uint64_t part = (most - least) >> shift;
    int64_t above = begin;
    while (above + counts[part] < k) above += counts[part--];
    const auto part_of = [=](uint64_t number) OPTEST_LAMBDA { return (number - least) >> shift; };
    begin = to_the_front(numbers, begin, end,
                         [=](uint64_t number) OPTEST_LAMBDA { return part_of(number) > part; });
    end = to_the_front(numbers, begin, end,
                       [=](uint64_t number) OPTEST_LAMBDA { return part_of(number) == part; });
  }
  std::nth_element(numbers + begin, numbers + (k - 1), numbers + end, std::greater<uint64_t>());
}

// The best so far of a row.
struct Best {
  uint64_t* kept;
  int64_t count;
  int64_t k;
  int32_t threshold;  // no key up to it is kept

  static constexpr int64_t kStep = 4 * kLanes;

  // Elements of `kept` that rows of any length need room for.
  static int64_t room(int64_t k) { return 3 * k + kStep; }

  OPTEST_INLINE void add(I keys, int64_t column) {
    uint32_t lanes = lanes_above(keys, threshold);
#if defined(OPTEST_ISA_AVX512)
    const __m512i columns = (__m512i)(lane_numbers() + static_cast<int32_t>(column));
    const __m512i upper = _mm512_maskz_compress_epi32(
        static_cast<__mmask16>(lanes), _mm512_xor_si512((__m512i)keys, _mm512_set1_epi32(INT32_MIN)));
    const __m512i lower = _mm512_maskz_compress_epi32(
        static_cast<__mmask16>(lanes), _mm512_xor_si512(columns, _mm512_set1_epi32(-1)));
    const __m512i first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
    _mm512_storeu_si512(kept + count, _mm512_permutex2var_epi32(lower, first, upper));
    _mm512_storeu_si512(kept + count + 8, _mm512_permutex2var_epi32(lower, second, upper));
    count += __builtin_popcount(lanes);
#else
    for (; lanes != 0; lanes &= lanes - 1) {
      const int lane = __builtin_ctz(lanes);
      kept[count++] = ranked(keys[lane], column + lane);
    }
#endif
  }
  OPTEST_NOINLINE void shrink() {
    select_largest(kept, count, k);
    count = k;
    threshold = key_of_ranked(kept[k - 1]);
  }
  OPTEST_INLINE void shrink_where_full() {
    if (count >= 3 * k) shrink();
  }

  // kStep elements.
  template <class T>
  OPTEST_INLINE void take(const T* x, int64_t column) {
    I keys[4];
    uint32_t above = 0;
    for (int v = 0; v < 4; ++v) {
      keys[v] = key_of(load(x + column + v * kLanes));
      above |= lanes_above(keys[v], threshold);
    }
    if (above == 0) return;
    for (int v = 0; v < 4; ++v) add(keys[v], column + v * kLanes);
    shrink_where_full();
  }
};

inline int64_t best_room(int64_t k) { return Best::room(k); }

// A key that, very likely, between k and 2 k elements are above: one of the best of each 16th step.
template <class T>
int32_t likely_threshold(const T* x, int64_t length, int64_t k, uint64_t* room) {
  constexpr int64_t every = 16;
  const float expected = static_cast<float>(k) / every;
  const auto rank = static_cast<int64_t>(expected + 4.0f * std::sqrt(expected));
  Best sample{room, 0, rank, kTaken};
  for (int64_t i = 0; i + Best::kStep <= length; i += every * Best::kStep) sample.take(x, i);
  if (sample.count < rank) return kTaken;
  sample.shrink();
  return sample.threshold - 1;  // of equal ones it may be all
}

// What is above `threshold`, or the best k of it and at most 3 k, in any order.
template <class T>
Best best_above(const T* x, int64_t length, int64_t k, uint64_t* room, int32_t threshold) {
  Best best{room, 0, k, threshold};
  int64_t i = 0;
  for (; i + Best::kStep <= length; i += Best::kStep) {
    for (int64_t part = 0; part < Best::kStep; part += kPair) ask_for_lines<4>(x + i + part);
    best.take(x, i);
  }
  for (; i < length; i += kLanes) {
    const int64_t lanes = length - i < kLanes ? length - i : kLanes;
    best.add(first_keys(key_of(load_lanes(x + i, lanes)), lanes), i);
    best.shrink_where_full();
  }
  return best;
}

// Leaves the best k of k elements or more at the beginning of `room` (of best_room(k)), in any order.
template <class T>
void keep_best(const T* x, int64_t length, int64_t k, uint64_t* room) {
  const bool sampled = k >= 128 && length >= 16 * k;
  const int32_t threshold = sampled ? likely_threshold(x, length, k, room) : kTaken;
  Best best = best_above(x, length, k, room, threshold);
  if (best.count < k) best = best_above(x, length, k, room, kTaken);
  best.shrink();
}

// Writes k columns, or all of a shorter row and -1 behind them. `room` has best_room(k) elements.
template <class T>
void topk_row(const void* scores, int64_t length, int64_t k, uint64_t* room, int32_t* ids) {
  if (length <= k) {
    for (int64_t i = 0; i < k; ++i) ids[i] = i < length ? static_cast<int32_t>(i) : -1;
    return;
  }
  keep_best(static_cast<const T*>(scores), length, k, room);
  for (int64_t j = 0; j < k; ++j) ids[j] = static_cast<int32_t>(~static_cast<uint32_t>(room[j]));
}
