// Writes to a paged KV cache:
//
//     key_cache[slot / block_size, slot % block_size] = key[token]      for slot = slot_mapping[token]
//
// and the same for values. key [tokens, heads, head_size], value [tokens, heads, value_size], caches
// [blocks, block_size, heads, size], slot_mapping [tokens] int64. A negative slot skips its token. Slots
// must differ: of two tokens that share one, either may win. Every dimension but the last may have any
// stride, so that a cache may also be a permuted view.

#include "optest/memory.h"
#include "optest/parallel.h"
#include "optest/tensor.h"
#include "optest/types.h"

#define OPTEST_KERNELS "../../cache_kernels.inl"
#include "optest/each_isa.h"

namespace optest {
namespace {

// One of the two tensors written and its cache, in bytes.
struct Copy {
  const char* from;
  char* to;
  int64_t token_step, from_head_step;
  int64_t block_step, position_step, to_head_step;
  int64_t block_size;
  int64_t heads, head_bytes;

  void token(int64_t index, int64_t slot, bool past_caches) const {
    const auto copy_row = OPTEST_SELECT(copy_row);
    const char* const source = from + index * token_step;
    char* const target =
        to + slot / block_size * block_step + slot % block_size * position_step;
    for (int64_t head = 0; head < heads; ++head) {
      copy_row(source + head * from_head_step, target + head * to_head_step, head_bytes,
               past_caches);
    }
  }
};

void check_pair(const char* name, const Tensor& rows, const char* cache_name,
                const Tensor& cache) {
  check_float_dtype(name, rows);
  check_dtype(cache_name, cache, rows.scalar_type());
  check(rows.dim() == 3, name, " has shape ", shape_of(rows),
        ", expected [tokens, heads, head_size]");
  check(cache.dim() == 4 && cache.size(2) == rows.size(1) && cache.size(3) == rows.size(2),
        cache_name, " has shape ", shape_of(cache), ", expected [blocks, block_size, ",
        rows.size(1), ", ", rows.size(2), "]");
  check_dense_last(name, rows);
  check_dense_last(cache_name, cache);
}

Copy make_copy(const Tensor& rows, const Tensor& cache) {
  const int64_t size = static_cast<int64_t>(rows.element_size());
  Copy copy{static_cast<const char*>(rows.data_ptr()),
            static_cast<char*>(cache.data_ptr()),
            rows.stride(0) * size,
            rows.stride(1) * size,
            cache.stride(0) * size,
            cache.stride(1) * size,
            cache.stride(2) * size,
            cache.size(1),
            rows.size(1),
            rows.size(2) * size};
  if (copy.from_head_step == copy.head_bytes && copy.to_head_step == copy.head_bytes) {
    copy.head_bytes *= copy.heads;  // heads that lie side by side are one run
    copy.heads = 1;
  }
  return copy;
}

void check_slots(const int64_t* slots, int64_t count, const char* cache_name,
                 const Tensor& cache) {
  const int64_t end = cache.size(0) * cache.size(1);
  for (int64_t i = 0; i < count; ++i) {
    check(slots[i] < end, "slot_mapping[", i, "] is ", slots[i], ", expected below ", end,
          ", the slots of ", cache_name);
  }
}

void reshape_and_cache(Tensor key, Tensor value, Tensor key_cache, Tensor value_cache,
                       Tensor slot_mapping) {
  check_pair("key", key, "key_cache", key_cache);
  check_pair("value", value, "value_cache", value_cache);
  check_dtype("slot_mapping", slot_mapping, ScalarType::Long);
  check(slot_mapping.dim() == 1 && slot_mapping.is_contiguous(), "slot_mapping has shape ",
        shape_of(slot_mapping), ", expected a contiguous [tokens]");
  const int64_t tokens = slot_mapping.size(0);
  check(key.size(0) == tokens, "key has shape ", shape_of(key), ", expected ", tokens,
        " tokens, as slot_mapping has");
  check(value.size(0) == tokens, "value has shape ", shape_of(value), ", expected ", tokens,
        " tokens, as slot_mapping has");
  const int64_t* const slots = static_cast<const int64_t*>(slot_mapping.data_ptr());
  check_slots(slots, tokens, "key_cache", key_cache);
  check_slots(slots, tokens, "value_cache", value_cache);
  const Copy keys = make_copy(key, key_cache);
  const Copy values = make_copy(value, value_cache);
  const int64_t token_bytes = keys.heads * keys.head_bytes + values.heads * values.head_bytes;
  const bool past_caches = goes_past_caches(tokens * token_bytes);
  parallel_rows(tokens, token_bytes, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (slots[i] < 0) continue;
      keys.token(i, slots[i], past_caches);
      values.token(i, slots[i], past_caches);
    }
    if (past_caches) finish_stream();
  });
}

}  // namespace
}  // namespace optest

STABLE_TORCH_LIBRARY_FRAGMENT(optest, m) {
  m.def(
      "reshape_and_cache(Tensor key, Tensor value, Tensor(a!) key_cache, Tensor(b!) value_cache, "
      "Tensor slot_mapping) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(optest, CPU, m) {
  m.impl("reshape_and_cache", TORCH_BOX(&optest::reshape_and_cache));
}
