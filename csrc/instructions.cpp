// The instructions that a kernel takes, counted by stepping through it one by one, and how many a machine
// takes at most. Single steps need no counters of the processor, which virtual machines seldom have.
//
// x86-64 under Linux only; elsewhere no operator is there. Counted are those of the address ranges
// [first, end) that are asked about, on the calling thread alone. It may not start threads meanwhile: the C
// library blocks signals then, and a step that no handler may see ends the process.

#include "optest/isa.h"
#include "optest/tensor.h"

#if defined(OPTEST_X86) && defined(__linux__)

#include <ucontext.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>

#include "optest/instruction.h"
#include "optest/parallel.h"

namespace optest {
namespace {

constexpr int64_t kMostRanges = 256;
constexpr int64_t kKinds = 4;  // all, then as Kind has them

struct Stepping {
  uintptr_t first[kMostRanges], end[kMostRanges];
  int64_t ranges = 0;
  int64_t counts[kKinds] = {};
  struct sigaction before;

  bool asks_about(uintptr_t at) const {
    for (int64_t i = 0; i < ranges; ++i) {
      if (at >= first[i] && at < end[i]) return true;
    }
    return false;
  }
};

// One at a time: a signal's handler is the process's.
Stepping stepping;
std::atomic<bool> in_use{false};

// Runs before each instruction of the thread that steps, with its address.
void count_one(int, siginfo_t*, void* context) {
  const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
  const auto at = static_cast<uintptr_t>(registers[REG_RIP]);
  if (!stepping.asks_about(at)) return;
  const auto* const bytes = reinterpret_cast<const uint8_t*>(at);
  if (!may_fuse(bytes)) ++stepping.counts[0];
  const Kind kind = kind_of(bytes);
  if (kind == Kind::other) return;
  ++stepping.counts[1];
  if (kind == Kind::multiply) ++stepping.counts[2];
  if (kind == Kind::shuffle) ++stepping.counts[3];
}

// The trap flag; the pointer moves first, so that what lies below it (128 bytes are a leaf's) stays.
void set_stepping(bool on) {
  if (on) {
    asm volatile("lea -128(%%rsp), %%rsp; pushfq; orl $0x100, (%%rsp); popfq; lea 128(%%rsp), %%rsp"
                 : : : "memory", "cc");
  } else {
    asm volatile("lea -128(%%rsp), %%rsp; pushfq; andl $~0x100, (%%rsp); popfq; lea 128(%%rsp), %%rsp"
                 : : : "memory", "cc");
  }
}

// ranges [n, 2] int64: first address, and the one behind the last.
void begin_counting(Tensor ranges) {
  check_dtype("ranges", ranges, ScalarType::Long);
  check(ranges.dim() == 2 && ranges.size(1) == 2 && ranges.is_contiguous() &&
            ranges.size(0) <= kMostRanges,
        "ranges has shape ", shape_of(ranges), ", expected a contiguous [up to ", kMostRanges, ", 2]");
  check(!in_use.exchange(true), "instructions are being counted already, expected end_counting first");
  const auto* const data = static_cast<const int64_t*>(ranges.data_ptr());
  stepping.ranges = ranges.size(0);
  for (int64_t i = 0; i < stepping.ranges; ++i) {
    stepping.first[i] = static_cast<uintptr_t>(data[2 * i]);
    stepping.end[i] = static_cast<uintptr_t>(data[2 * i + 1]);
  }
  std::fill(stepping.counts, stepping.counts + kKinds, 0);
  struct sigaction action {};
  action.sa_sigaction = count_one;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, &stepping.before);
  set_stepping(true);
}

// counts [4] int64: all instructions (but conditional jumps, which cost nothing of their own), those on vectors,
// of these those that multiply and that move lanes.
void end_counting(Tensor counts) {
  set_stepping(false);
  check(in_use.load(), "no instructions are being counted, expected begin_counting first");
  sigaction(SIGTRAP, &stepping.before, nullptr);
  in_use.store(false);
  check_dtype("counts", counts, ScalarType::Long);
  check(counts.dim() == 1 && counts.size(0) == kKinds && counts.is_contiguous(), "counts has shape ",
        shape_of(counts), ", expected a contiguous [", kKinds, "]");
  std::memcpy(counts.data_ptr(), stepping.counts, sizeof stepping.counts);
}

// ---- at most --------------------------------------------------------------------------------------

constexpr int64_t kUnrolled = 12;  // more than a unit's latency times the units

#define OPTEST_TWELVE(one, v) \
  one(v, 0) one(v, 1) one(v, 2) one(v, 3) one(v, 4) one(v, 5) one(v, 6) one(v, 7) one(v, 8) one(v, 9) \
      one(v, 10) one(v, 11)
#define OPTEST_LOOP(one, v) \
  for (int64_t i = 0; i < count; i += kUnrolled) \
  asm volatile(OPTEST_TWELVE(one, v) : : : OPTEST_CLOBBERS)

#define OPTEST_CLOBBERS                                                                        \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11"

#define OPTEST_OR(v, i) "vorps %%" v "15, %%" v #i ", %%" v #i "\n"
#define OPTEST_FMA(v, i) "vfmadd231ps %%" v "15, %%" v "15, %%" v #i "\n"
#define OPTEST_UNPACK(v, i) "vpunpcklbw %%" v "15, %%" v #i ", %%" v #i "\n"
#define OPTEST_NOP(v, i) "nop; nop; nop; nop; nop; nop; nop; nop; nop; nop\n"

void run_nops(int64_t count) {
  for (int64_t i = 0; i < count; i += 10 * kUnrolled) asm volatile(OPTEST_TWELVE(OPTEST_NOP, ""));
}

// Of vectors of a register's name; numbers are zeros, which arithmetic is quick with.
#define OPTEST_RUN(name, v)                                                               \
  void name(Kind kind, int64_t count) {                                                   \
    asm volatile("vzeroall" : : : OPTEST_CLOBBERS, "xmm12", "xmm13", "xmm14", "xmm15");   \
    if (kind == Kind::multiply) {                                                         \
      OPTEST_LOOP(OPTEST_FMA, v);                                                         \
    } else if (kind == Kind::shuffle) {                                                   \
      OPTEST_LOOP(OPTEST_UNPACK, v);                                                      \
    } else {                                                                              \
      OPTEST_LOOP(OPTEST_OR, v);                                                          \
    }                                                                                     \
    asm volatile("vzeroupper");                                                           \
  }
OPTEST_RUN(run_256, "ymm")
OPTEST_RUN(run_512, "zmm")

// `count` instructions of a kind on each thread, a multiple of 120: 0 any, 1 any on vectors, 2 one that multiplies,
// 3 one that moves lanes; each the quickest of its kind, on the widest vectors that kernels use.
void run_instructions(int64_t kind, int64_t count) {
  check(kind >= 0 && kind < kKinds, "kind is ", kind, ", expected 0 to ", kKinds - 1);
  check(count >= 0 && count % 120 == 0, "count is ", count, ", expected a multiple of 120");
  const Isa isa = current_isa();
  check(isa == Isa::avx2 || isa == Isa::avx512, "the instruction set is ", choose_isa().name,
        ", expected avx2 or avx512");
  const auto run = isa == Isa::avx512 ? &run_512 : &run_256;
  parallel_pieces(torch::stable::get_num_threads(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      kind == 0 ? run_nops(count) : run(static_cast<Kind>(kind), count);
    }
  });
}

}  // namespace
}  // namespace optest

STABLE_TORCH_LIBRARY_FRAGMENT(optest, m) {
  m.def("begin_counting(Tensor ranges) -> ()");
  m.def("end_counting(Tensor(a!) counts) -> ()");
  m.def("run_instructions(int kind, int count) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(optest, CPU, m) {
  m.impl("begin_counting", TORCH_BOX(&optest::begin_counting));
  m.impl("end_counting", TORCH_BOX(&optest::end_counting));
}

// No tensor tells the dispatcher a device here.
STABLE_TORCH_LIBRARY_IMPL(optest, CompositeExplicitAutograd, m) {
  m.impl("run_instructions", TORCH_BOX(&optest::run_instructions));
}

#endif
