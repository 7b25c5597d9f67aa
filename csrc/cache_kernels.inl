// Copies of rows into a KV cache.

#include "optest/vec.inl"

inline void copy_row(const char* from, char* to, int64_t bytes, bool past_caches) {
  if (past_caches) {
    stream(to, from, bytes);
  } else {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  }
}
