// What a timer needs to be kept honest: operators that do nothing, operators that take a known time,
// and a walk through memory that leaves the caches cold.

#include <chrono>
#include <string>

#include "optest/evict.h"
#include "optest/isa.h"
#include "optest/parallel.h"
#include "optest/tensor.h"

namespace optest {
namespace {

using Clock = std::chrono::steady_clock;

// Returns when `us` microseconds have gone by since it was entered; never earlier, and later by one
// reading of the clock (some 20 ns). A thread that is preempted meanwhile is not held longer for it.
void busy_wait(double us) {
  const auto end = Clock::now() + std::chrono::nanoseconds(static_cast<int64_t>(us * 1e3));
  while (Clock::now() < end) {
  }
}

void check_duration(double us) {
  check(us >= 0.0 && us <= 60e6, "us is ", us, ", expected microseconds from 0 to 60000000");
}

void noop(Tensor) {}

void noop_us(double) {}

void noop_on(Tensor, double) {}

void spin(double us) {
  check_duration(us);
  busy_wait(us);
}

void spin_on(Tensor, double us) { spin(us); }

// Reads every cache line and writes one byte a page. The writes give each page memory of its own (all
// pages of a fresh allocation are one page of zeros until then) and leave so few lines dirty that
// writing them back costs the operator timed next nothing.
void flush(Tensor buffer) {
  check(buffer.is_contiguous(), "buffer has strides, expected a contiguous tensor");
  constexpr int64_t page = 4096;
  constexpr int64_t line = 64;
  char* const data = static_cast<char*>(buffer.data_ptr());
  const int64_t bytes = buffer.numel() * static_cast<int64_t>(buffer.element_size());
  parallel_pieces(bytes, 64 * page, [&](int64_t begin, int64_t end) {
    uint64_t sum = 0;
    for (int64_t at = begin; at < end; at += line) {
      sum += static_cast<unsigned char>(data[at]);
      if (at % page == 0) data[at] = static_cast<char>(data[at] + 1);
    }
    asm volatile("" : : "r"(sum) : "memory");
  });
}

#ifdef OPTEST_CAN_EVICT
// Drops the lines between a tensor's first and last element from the caches, wherever they are.
void evict_lines(Tensor x) {
  if (x.numel() == 0) return;
  int64_t last = 0;
  for (int64_t i = 0; i < x.dim(); ++i) last += (x.size(i) - 1) * x.stride(i);
  char* const data = static_cast<char*>(x.data_ptr());
  const int64_t bytes = (last + 1) * static_cast<int64_t>(x.element_size());
  // From the start of the first line: the first element may stand in the middle of one.
  const int64_t ahead = static_cast<int64_t>(reinterpret_cast<uintptr_t>(data) % kLine);
  parallel_pieces(bytes + ahead, 16384 * kLine, [&](int64_t begin, int64_t end) {
    evict(data - ahead + begin, data - ahead + end);
  });
}
#endif

std::string isa() { return choose_isa().name; }

}  // namespace
}  // namespace optest

STABLE_TORCH_LIBRARY_FRAGMENT(optest, m) {
  m.def("noop(Tensor x) -> ()");
  m.def("noop_us(float us) -> ()");
  m.def("noop_on(Tensor x, float us) -> ()");
  m.def("spin(float us) -> ()");
  m.def("spin_on(Tensor x, float us) -> ()");
  m.def("flush(Tensor(a!) buffer) -> ()");
  m.def("isa() -> str");
#ifdef OPTEST_CAN_EVICT
  m.def("evict_lines(Tensor x) -> ()");
#endif
}

STABLE_TORCH_LIBRARY_IMPL(optest, CPU, m) {
  m.impl("noop", TORCH_BOX(&optest::noop));
  m.impl("noop_on", TORCH_BOX(&optest::noop_on));
  m.impl("spin_on", TORCH_BOX(&optest::spin_on));
  m.impl("flush", TORCH_BOX(&optest::flush));
#ifdef OPTEST_CAN_EVICT
  m.impl("evict_lines", TORCH_BOX(&optest::evict_lines));
#endif
}

// No tensor tells the dispatcher a device here.
STABLE_TORCH_LIBRARY_IMPL(optest, CompositeExplicitAutograd, m) {
  m.impl("noop_us", TORCH_BOX(&optest::noop_us));
  m.impl("spin", TORCH_BOX(&optest::spin));
  m.impl("isa", TORCH_BOX(&optest::isa));
}
