// A CPU allocator that fills fresh memory with one byte while it is switched on. It sits in front of
// torch's own allocator and leaves freeing to it, so that switched off it costs one predictable branch.
//
// The stable ABI has no hook for allocators, so this file, alone in csrc, is built against c10: the
// libraries are cached by torch version, and a new torch builds a new one.

#undef TORCH_TARGET_VERSION
#undef TORCH_STABLE_ONLY

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <cstring>

namespace {

constexpr int kOff = -1;
std::atomic<int> poison{kOff};

class PoisonAllocator final : public c10::Allocator {
 public:
  explicit PoisonAllocator(c10::Allocator* inner) : inner_(inner) {}

  c10::DataPtr allocate(size_t nbytes) override {
    c10::DataPtr memory = inner_->allocate(nbytes);
    const int byte = poison.load(std::memory_order_relaxed);
    if (byte != kOff && nbytes != 0) std::memset(memory.get(), byte, nbytes);
    return memory;
  }

  c10::DeleterFnPtr raw_deleter() const override { return inner_->raw_deleter(); }

  void copy_data(void* dest, const void* src, std::size_t count) const override {
    inner_->copy_data(dest, src, count);
  }

 private:
  c10::Allocator* inner_;
};

}  // namespace

#define OPTEST_EXPORT extern "C" __attribute__((visibility("default")))

OPTEST_EXPORT void optest_poison_install() {
  static PoisonAllocator* allocator = [] {
    auto* made = new PoisonAllocator(c10::GetCPUAllocator());
    c10::SetCPUAllocator(made, /*priority=*/100);
    return made;
  }();
  (void)allocator;
}

// Fills with `byte` from now on, or no longer where it is -1; returns what held before.
OPTEST_EXPORT int optest_poison_set(int byte) {
  return poison.exchange(byte, std::memory_order_relaxed);
}
