// What memory can do: read and copied over and over, each thread in a part of its own, so that what fits
// a core's cache stays in it from one pass to the next.

#include "optest/memory.h"
#include "optest/parallel.h"
#include "optest/tensor.h"
#include "optest/types.h"

#define OPTEST_KERNELS "../../peaks_kernels.inl"
#include "optest/each_isa.h"

namespace optest {
namespace {

// 8 of the widest vectors, and a page's eighth: parts of two threads share no cache line.
constexpr int64_t kBlock = 512;

int64_t bytes_of(const char* name, const Tensor& x) {
  check(x.is_contiguous(), name, " has strides, expected a contiguous tensor");
  const int64_t bytes = x.numel() * static_cast<int64_t>(x.element_size());
  check(bytes > 0 && bytes % kBlock == 0, name, " has ", bytes, " bytes, expected a multiple of ",
        kBlock);
  check(reinterpret_cast<uintptr_t>(x.data_ptr()) % 64 == 0, name,
        " begins inside a cache line, expected a tensor that is no slice");
  return bytes;
}

void check_passes(int64_t passes) {
  check(passes > 0, "passes is ", passes, ", expected 1 or more");
}

// body(begin, end) once for each thread, in bytes; the parts are whole blocks and fill [0, bytes).
template <class Body>
void each_part(int64_t bytes, const Body& body) {
  const int64_t blocks = bytes / kBlock;
  const int64_t workers = std::min<int64_t>(torch::stable::get_num_threads(), blocks);
  torch::stable::parallel_for(0, workers, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      body(blocks * i / workers * kBlock, blocks * (i + 1) / workers * kBlock);
    }
  });
}

void read_passes(Tensor x, int64_t passes) {
  const int64_t bytes = bytes_of("x", x);
  check_passes(passes);
  const char* const data = static_cast<const char*>(x.data_ptr());
  const auto read = OPTEST_SELECT(read_blocks);
  each_part(bytes, [&](int64_t begin, int64_t end) {
    for (int64_t pass = 0; pass < passes; ++pass) {
      const uint32_t seen = read(data + begin, end - begin);
      asm volatile("" : : "r"(seen) : "memory");
    }
  });
}

void copy_passes(Tensor to, Tensor from, int64_t passes) {
  const int64_t bytes = bytes_of("to", to);
  check(bytes_of("from", from) == bytes, "from has other bytes than to, expected as many");
  check_passes(passes);
  const char* const source = static_cast<const char*>(from.data_ptr());
  char* const target = static_cast<char*>(to.data_ptr());
  const bool past_caches = goes_past_caches(bytes);
  const auto copy = past_caches ? OPTEST_SELECT(copy_blocks<true>) : OPTEST_SELECT(copy_blocks<false>);
  each_part(bytes, [&](int64_t begin, int64_t end) {
    for (int64_t pass = 0; pass < passes; ++pass) {
      copy(target + begin, source + begin, end - begin);
      asm volatile("" : : : "memory");
    }
    if (past_caches) finish_stream();
  });
}

}  // namespace
}  // namespace optest

STABLE_TORCH_LIBRARY_FRAGMENT(optest, m) {
  m.def("read_passes(Tensor x, int passes) -> ()");
  m.def("copy_passes(Tensor(a!) to, Tensor from, int passes) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(optest, CPU, m) {
  m.impl("read_passes", TORCH_BOX(&optest::read_passes));
  m.impl("copy_passes", TORCH_BOX(&optest::copy_passes));
}
