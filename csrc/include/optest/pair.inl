// What kernels share that judge two sides of a pair, value by value.

#include "optest/vec.inl"

// Values judged together where they lie. fp32 sums of so few squares, spread over the lanes, are
// accurate to six digits; what is unusual among them is looked at again, while it is near.
constexpr int64_t kRun = 4096;
// What is taken from memory into a buffer at a time.
constexpr int64_t kBuffer = 1024;

OPTEST_INLINE float fp32_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// How far ahead memory is asked for what is read later, in bytes of either side.
struct Ahead {
  int64_t a = 0;
  int64_t b = 0;

  Ahead() = default;
  // Of those before the first `done` values of a run: within what follows, or in the next run.
  template <class T>
  OPTEST_INLINE static Ahead of(const PairRun& run, int64_t done) {
    constexpr int64_t size = sizeof(T);
    const int64_t left = (run.n - done + run.follows) * size;
    Ahead ahead;
    ahead.a = ahead.b = left < kBytesAhead ? left : kBytesAhead;
    if (run.follows == 0 && run.n * size <= kBytesAhead) {
      ahead.a = run.a_next;
      ahead.b = run.b_next;
    }
    return ahead;
  }
};

// The cache lines that kBytes of either side take, so far ahead.
template <size_t kBytes>
OPTEST_INLINE void ask_for(const void* a, const void* b, Ahead ahead) {
  const char* const from_a = static_cast<const char*>(a) + ahead.a;
  const char* const from_b = static_cast<const char*>(b) + ahead.b;
  for (size_t line = 0; line < kBytes; line += 64) __builtin_prefetch(from_a + line);
  for (size_t line = 0; line < kBytes; line += 64) __builtin_prefetch(from_b + line);
}
