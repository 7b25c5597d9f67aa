// Routing of one token among n experts: the k largest scores, by passes over keys that order as the
// scores do. Of equal keys the first is taken.

#include "optest/keys.inl"

// Keys of a row in groups of `size`, each padded to whole vectors, so that none reaches into the next.
struct Spread {
  int64_t groups;
  int64_t size;

  int64_t stride() const { return padded(size); }
  int64_t room() const { return groups * stride(); }
  int64_t vectors() const { return room() / kLanes; }
  int64_t expert(int64_t at) const { return at / stride() * size + at % stride(); }
};

// Elements of scratch that a row of `groups` groups of `size` experts needs: keys, scores, groups.
inline int64_t scratch_room(int64_t groups, int64_t size) {
  return 2 * Spread{groups, size}.room() + padded(groups);
}

inline void scale_by(float* w, int64_t k, float divisor, float factor) {
  for (int64_t j = 0; j < k; ++j) w[j] = w[j] / divisor * factor;
}

// Softmax over n experts, the k largest of it: weights, and ids of the experts.
template <class T>
void topk_softmax_row(const void* gating, int64_t n, int64_t k, bool renormalize, float* scratch,
                      float* weights, int32_t* ids) {
  const T* const x = static_cast<const T*>(gating);
  int32_t* const keys = reinterpret_cast<int32_t*>(scratch);
  each_vector(n, [&](int64_t lanes, int64_t i) OPTEST_LAMBDA {
    store_raw(keys + i, first_keys(key_of(load_lanes(x + i, lanes)), lanes));
  });
  for (int64_t j = 0; j < k; ++j) {
    const int64_t at = first_largest(keys, padded(n) / kLanes);
    ids[j] = static_cast<int32_t>(at);
    weights[j] = value_of(keys[at]);
    keys[at] = kTaken;
  }
  if (k == 0) return;
  const float largest = weights[0];
  const float chosen = exponentials(weights, k, largest);
  scale_by(weights, k, renormalize ? chosen : sum_of_exponentials(x, n, largest), 1.0f);
}

// Scores of all experts and keys of what they are with the bias.
template <class T>
OPTEST_INLINE void score(const T* x, const float* bias, Spread spread, float* scores, int32_t* keys) {
  for (int64_t g = 0; g < spread.groups; ++g) {
    const int64_t from = g * spread.size;
    const int64_t to = g * spread.stride();
    each_vector(spread.size, [&](int64_t lanes, int64_t i) OPTEST_LAMBDA {
      const F s = sigmoid<float>(load_lanes(x + from + i, lanes));
      store_raw(scores + to + i, s);
      const F biased = s + load_lanes(bias + from + i, lanes);
      store_raw(keys + to + i, first_keys(key_of(biased), lanes));
    });
  }
}

// Sum of the two largest of a group of keys, which are left as they are.
inline float two_largest(int32_t* keys, int64_t vectors, int64_t size) {
  const int64_t first = first_largest(keys, vectors);
  const int32_t best = keys[first];
  if (size < 2) return value_of(best);
  keys[first] = kTaken;
  const float second = value_of(keys[first_largest(keys, vectors)]);
  keys[first] = best;
  return value_of(best) + second;
}

// Takes the experts of all but the `kept` best groups out of the choice.
inline void drop_groups(int32_t* keys, Spread spread, int64_t kept, int32_t* group_keys) {
  const int64_t stride = spread.stride();
  for (int64_t g = 0; g < padded(spread.groups); ++g) group_keys[g] = kTaken;
  for (int64_t g = 0; g < spread.groups; ++g) {
    const float sum = two_largest(keys + g * stride, stride / kLanes, spread.size);
    group_keys[g] = key_of(splat(sum))[0];
  }
  for (int64_t j = 0; j < kept; ++j) {
    group_keys[first_largest(group_keys, padded(spread.groups) / kLanes)] = kTaken;
  }
  for (int64_t g = 0; g < spread.groups; ++g) {
    if (group_keys[g] == kTaken) continue;
    for (int64_t i = 0; i < stride; ++i) keys[g * stride + i] = kTaken;
  }
}

// DeepSeek-V3's: sigmoid and bias, the best groups, the best k of their experts.
template <class T>
void grouped_topk_row(const void* gating, const float* bias, int64_t groups, int64_t size, int64_t kept,
                      int64_t k, bool renormalize, float scale, float* scratch, float* weights,
                      int32_t* ids) {
  const Spread spread{groups, size};
  int32_t* const keys = reinterpret_cast<int32_t*>(scratch);
  float* const scores = scratch + spread.room();
  score(static_cast<const T*>(gating), bias, spread, scores, keys);
  if (kept < groups) {
    drop_groups(keys, spread, kept, reinterpret_cast<int32_t*>(scores + spread.room()));
  }
  float sum = 0.0f;
  for (int64_t j = 0; j < k; ++j) {
    const int64_t at = first_largest(keys, spread.vectors());
    ids[j] = static_cast<int32_t>(spread.expert(at));
    weights[j] = scores[at];
    sum += scores[at];
    keys[at] = kTaken;
  }
  scale_by(weights, k, renormalize ? sum : 1.0f, scale);
}
