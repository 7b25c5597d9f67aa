// Which instruction set an aarch64 CPU's kernels run on, copies past the caches among them.

#include <cstdlib>

#include "check.h"

#define OPTEST_KERNELS "../../cache_kernels.inl"
#include "optest/each_isa.h"

using namespace check;

void check_choice() {
  Verdict verdict("neon is chosen, portable where OPTEST_ISA asks for it, avx2 refused");
  verdict.equal("listed", optest::cpu_isas() == "neon, portable", true);
  unsetenv("OPTEST_ISA");
  verdict.equal("best", optest::choose_isa().isa == optest::Isa::neon, true);
  setenv("OPTEST_ISA", " Portable ", 1);
  verdict.equal("named", optest::choose_isa().isa == optest::Isa::portable, true);
  setenv("OPTEST_ISA", "avx2", 1);
  bool refused = false;
  try {
    optest::choose_isa();
  } catch (const std::invalid_argument&) {
    refused = true;
  }
  verdict.equal("refused", refused, true);
  unsetenv("OPTEST_ISA");
  verdict.equal("selected", OPTEST_SELECT(copy_row) == &optest::neon::copy_row, true);
}

void check_copy() {
  Verdict verdict("copy_row");
  Random random(39);
  for (const int64_t n : kLengths) {
    const Room<float> from = numbers<float>(random, n);
    for (const bool past_caches : {false, true}) {
      const Room<float> to(n);
      optest::neon::copy_row(reinterpret_cast<const char*>(from.data()),
                             reinterpret_cast<char*>(to.data()), 4 * n, past_caches);
      verdict.same("to", to.data(), from.data(), n);
    }
  }
}

int main() {
  check_choice();
  check_copy();
  return exit_code();
}
