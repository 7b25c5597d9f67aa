// Columns of the k largest of a row, read once: what is above a threshold is picked, which a sample of the
// row gives; where enough is picked, the best k of it stay, and the threshold is raised.

#include "optest/picked.inl"

// The best so far of a row.
struct Best {
  Picked picked;
  int64_t k;
  float threshold;  // no element up to it is picked

  static constexpr int64_t kStep = 4 * kLanes;

  Best(PickedRoom* room, int64_t k_, float threshold_)
      : picked(room, 3 * k_ + kStep), k(k_), threshold(threshold_) {}

  OPTEST_INLINE void shrink_where_full() {
    if (picked.count >= 3 * k) threshold = value_of(picked.keep_best(k));
  }

  // kStep elements.
  template <class T>
  OPTEST_INLINE void take(const T* x, int64_t column) {
    F values[4];
    uint32_t above[4];
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      values[v] = load(x + column + v * kLanes);
      above[v] = lanes_above(values[v], threshold);
    }
    if ((above[0] | above[1] | above[2] | above[3]) == 0) return;
    Picked now = picked;  // a copy stays in registers
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) now.add(values[v], column + v * kLanes, above[v]);
    picked.count = now.count;
    shrink_where_full();
  }
};

// Every element is above it.
inline float no_threshold() { return value_of(kTaken); }

// What, very likely, between k and 2 k elements are above: one of the best of each 16th step.
template <class T>
float likely_threshold(const T* x, int64_t length, int64_t k, PickedRoom* room) {
  constexpr int64_t every = 16;
  const float expected = static_cast<float>(k) / every;
  const auto rank = static_cast<int64_t>(expected + 4.0f * std::sqrt(expected));
  Best sample{room, rank, no_threshold()};
  for (int64_t i = 0; i + Best::kStep <= length; i += every * Best::kStep) {
    const char* const later = reinterpret_cast<const char*>(x + i + 8 * every * Best::kStep);
    constexpr auto bytes = static_cast<int64_t>(Best::kStep * sizeof(T));
    for (int64_t line = 0; line < bytes; line += 64) __builtin_prefetch(later + line);
    sample.take(x, i);
  }
  if (sample.picked.count < rank) return no_threshold();
  const int32_t last = sample.picked.keep_best(rank);
  // Of equal ones it may be all. Below 0 is -0, which no 0 is above.
  return value_of(last == 0 ? -2 : last - 1);
}

// What is above `threshold`, or the best k of it and at most 3 k.
template <class T>
Best best_above(const T* x, int64_t length, int64_t k, PickedRoom* room, float threshold) {
  Best best{room, k, threshold};
  int64_t i = 0;
  for (; i + Best::kStep <= length; i += Best::kStep) {
    for (int64_t part = 0; part < Best::kStep; part += kPair) ask_for_stream<4>(x + i + part);
    best.take(x, i);
  }
  for (; i < length; i += kLanes) {
    const int64_t lanes = length - i < kLanes ? length - i : kLanes;
    const F values = load_lanes(x + i, lanes);
    best.picked.add(values, i, lanes_above(values, best.threshold) & lanes_up_to(lanes));
    best.shrink_where_full();
  }
  return best;
}

// What is above the threshold of the row before, where that holds k elements.
template <class T>
bool found_as_before(Best* best, const T* x, int64_t length, int64_t k, PickedRoom* room) {
  if (!room->guess.holds_for(length, k)) return false;
  *best = best_above(x, length, k, room, room->guess.threshold);
  if (best->picked.count >= k) return true;
  room->guess.missed();
  return false;
}

// The best k of k elements or more.
template <class T>
Picked best_of(const T* x, int64_t length, int64_t k, PickedRoom* room) {
  Best best{room, k, no_threshold()};
  if (!found_as_before(&best, x, length, k, room)) {
    const bool sampled = k >= 16 && length >= 16 * k;
    const float threshold = sampled ? likely_threshold(x, length, k, room) : no_threshold();
    best = best_above(x, length, k, room, threshold);
    if (best.picked.count < k) best = best_above(x, length, k, room, no_threshold());
    room->guess.threshold = threshold;
  }
  // So many that a like row has k of them too, and not so many that they were cut.
  const auto count = static_cast<float>(best.picked.count), wanted = static_cast<float>(k);
  const bool fits = best.threshold == room->guess.threshold &&
                    count > wanted + 4.0f * std::sqrt(wanted);
  room->guess.k = fits ? k : 0;
  room->guess.length = length;
  best.picked.keep_best(k);
  return best.picked;
}

// Writes k columns, or all of a shorter row and -1 behind them.
template <class T>
void topk_row(const void* scores, int64_t length, int64_t k, PickedRoom* room, int32_t* ids) {
  if (length <= k) {
    for (int64_t i = 0; i < k; ++i) ids[i] = i < length ? static_cast<int32_t>(i) : -1;
    return;
  }
  const Picked best = best_of(static_cast<const T*>(scores), length, k, room);
  std::memcpy(ids, best.columns, static_cast<size_t>(k) * sizeof(int32_t));
}
