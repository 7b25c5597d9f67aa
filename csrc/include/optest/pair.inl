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

// How far ahead memory is asked for what is read behind the first `done` values of a run: not beyond
// the last that is.
template <class T>
OPTEST_INLINE int64_t ahead_of(const PairRun& run, int64_t done) {
  const int64_t left = (run.n - done + run.follows) * static_cast<int64_t>(sizeof(T));
  return left < kBytesAhead ? left : kBytesAhead;
}

// The cache lines that kBytes take, so far ahead.
template <size_t kBytes>
OPTEST_INLINE void ask_for(const void* from, int64_t ahead) {
  const char* at = static_cast<const char*>(from) + ahead;
  for (size_t line = 0; line < kBytes; line += 64) __builtin_prefetch(at + line);
}
