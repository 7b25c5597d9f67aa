// A CPU allocator that, while switched on, fills fresh memory with one byte and puts guards around
// it: canary bytes, or pages that nobody may touch. It can leave pages of large blocks that do not
// exist yet until it is asked to fill those, too: most are written by then, or freed, and filling
// them would have cost as much as writing them. It sits in front of torch's own. Switched off it
// costs one predictable branch and hands out what torch's own gives; memory that was guarded when it
// was allocated stays guarded until it is freed.
//
// The stable ABI has no hook for allocators, so this file, alone in csrc, is built against c10: the
// libraries are cached by torch version, and a new torch builds a new one.

#undef TORCH_TARGET_VERSION
#undef TORCH_STABLE_ONLY

#include "optest/guarded_blocks.h"
#include "optest/page_map.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <system_error>
#include <thread>
#include <vector>

namespace optest {
namespace {

enum class Guard { kNone = 0, kBytes = 1, kPages = 2 };

// What is on, in one word: bits 0 to 7 the poison, bit 8 whether to poison, bits 9 and 10 the guard,
// bit 11 whether pages that do not exist yet may wait.
class Switches {
 public:
  explicit Switches(uint32_t word) : word_(word) {}

  bool poisons() const { return (word_ & 0x100) != 0; }
  int poison() const { return static_cast<int>(word_ & 0xFF); }
  Guard guard() const { return static_cast<Guard>(word_ >> 9 & 3); }
  bool waits() const { return (word_ & 0x800) != 0; }

 private:
  uint32_t word_;
};

std::atomic<uint32_t> switches{0};
std::atomic<uint64_t> without_pages{0};

// Never destroyed: tensors may outlive the statics of a library.
GuardedBlocks& blocks() {
  static GuardedBlocks* const made = new GuardedBlocks;
  return *made;
}

c10::Allocator* inner = nullptr;

// From this size on a second thread pays for itself, and so does waiting: the pages of so large a
// block are mostly met here for the first time, which costs more than writing them.
constexpr size_t kLarge = size_t{8} << 20;

void fill(char* data, int byte, size_t nbytes) {
  const size_t half = nbytes < kLarge ? 0 : nbytes / 2;
  std::thread other;
  if (half != 0) {
    try {
      other = std::thread([=] { std::memset(data, byte, half); });
    } catch (const std::system_error&) {  // no thread to be had: this one fills it all
    }
  }
  const size_t from = other.joinable() ? half : 0;
  std::memset(data + from, byte, nbytes - from);
  if (other.joinable()) other.join();
}

// Fills the pages that exist, or those that do not; returns whether there are others.
bool fill_pages(char* data, int byte, size_t nbytes, bool existing) {
  bool others = false;
  PageMap().runs(data, nbytes, [&](char* run, size_t size, bool touched) {
    if (touched == existing) {
      fill(run, byte, size);
    } else {
      others = true;
    }
  });
  return others;
}

// Frees what this allocator handed out, guarded or not.
void release(void* data) {
  if (!blocks().release(data)) inner->raw_deleter()(data);
}

Block guarded(size_t nbytes, Guard guard) {
#if defined(OPTEST_GUARD_PAGES)
  if (guard == Guard::kPages) {
    if (Mapping* const mapping = GuardPages::instance().map(nbytes)) {
      return Block::between_pages(mapping);
    }
    without_pages.fetch_add(1, std::memory_order_relaxed);
  }
#else
  (void)guard;
#endif
  return Block::on_heap(*inner, nbytes);
}

class GuardingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t nbytes) override {
    const uint32_t word = switches.load(std::memory_order_relaxed);
    if (word == 0 || nbytes == 0) return inner->allocate(nbytes);
    const Switches now(word);
    const bool is_guarded = now.guard() != Guard::kNone && nbytes <= kMost;
    c10::DataPtr memory = is_guarded ? handed_out(guarded(nbytes, now.guard()))
                                     : inner->allocate(nbytes);
    if (!now.poisons()) return memory;
    char* const data = static_cast<char*>(memory.get());
    // Only what is guarded is known to be alive when it is asked for.
    const bool waits = now.waits() && is_guarded && nbytes >= kLarge;
    if (!waits) {
      fill(data, now.poison(), nbytes);
    } else if (fill_pages(data, now.poison(), nbytes, /*existing=*/true)) {
      blocks().owe(data, now.poison());
    }
    return memory;
  }

  // One deleter for all that is handed out: it may be asked for without the memory at hand.
  c10::DeleterFnPtr raw_deleter() const override {
    return inner->raw_deleter() == nullptr ? nullptr : release;
  }

  void copy_data(void* dest, const void* src, std::size_t count) const override {
    inner->copy_data(dest, src, count);
  }

 private:
  // Beyond it is nothing but a mistake, which the inner allocator words better.
  static constexpr size_t kMost = std::numeric_limits<ptrdiff_t>::max() / 2;

  // Data and context are the same address, as the raw interface demands.
  static c10::DataPtr handed_out(Block block) {
    const c10::Device device = block.device();
    void* const data = blocks().add(std::move(block));
    return {data, data, release, device};
  }
};

// A child gets the locks as they are; held by a thread that it does not have, they would stay so.
void lock_all() {
  blocks().mutex().lock();
#if defined(OPTEST_GUARD_PAGES)
  GuardPages::instance().mutex().lock();
#endif
}

void unlock_all() {
#if defined(OPTEST_GUARD_PAGES)
  GuardPages::instance().mutex().unlock();
#endif
  blocks().mutex().unlock();
}

template <class Record>
size_t handed_over(const std::vector<Record>& records, Record* out, size_t room) {
  const size_t count = std::min(room, records.size());
  std::copy_n(records.begin(), count, out);
  return count;
}

}  // namespace
}  // namespace optest

#define OPTEST_EXPORT extern "C" __attribute__((visibility("default")))

// Once a process.
OPTEST_EXPORT void optest_allocator_install() {
  static optest::GuardingAllocator* const allocator = [] {
    optest::inner = c10::GetCPUAllocator();
    auto* made = new optest::GuardingAllocator;
    pthread_atfork(optest::lock_all, optest::unlock_all, optest::unlock_all);
    c10::SetCPUAllocator(made, /*priority=*/100);
    return made;
  }();
  (void)allocator;
}

// Sets what is on (see Switches); returns what was.
OPTEST_EXPORT uint32_t optest_allocator_switch(uint32_t word) {
#if defined(OPTEST_GUARD_PAGES)
  if (optest::Switches(word).guard() == optest::Guard::kPages) {
    optest::GuardPages::instance().catch_faults();
  }
#endif
  return optest::switches.exchange(word, std::memory_order_relaxed);
}

// Fills what has waited (see Switches); what was written meanwhile is left alone.
OPTEST_EXPORT void optest_allocator_settle() {
  optest::blocks().settle([](char* data, int byte, size_t nbytes) {
    optest::fill_pages(data, byte, nbytes, /*existing=*/false);
  });
}

OPTEST_EXPORT int optest_guard_pages_exist() {
#if defined(OPTEST_GUARD_PAGES)
  return 1;
#else
  return 0;
#endif
}

// Bytes of the guarded blocks that are alive: of those between pages, or of the others.
OPTEST_EXPORT uint64_t optest_guard_live_bytes(int paged) {
  return optest::blocks().live_bytes(paged != 0);
}

OPTEST_EXPORT int optest_guard_knows(const void* data) { return optest::blocks().knows(data); }

// Looks at the blocks that begin at `which`, or at all where it is null; returns how many damages
// there are to take.
OPTEST_EXPORT uint64_t optest_guard_check(const void* const* which, uint64_t count) {
  return optest::blocks().check(which, count);
}

// Closes the pages that faults opened; returns how many faults there are to take.
OPTEST_EXPORT uint64_t optest_guard_close_pages() {
#if defined(OPTEST_GUARD_PAGES)
  return optest::GuardPages::instance().close();
#else
  return 0;
#endif
}

// These two fill `out` and return how many they put there; what does not fit into `room` is lost.
OPTEST_EXPORT uint64_t optest_guard_take_damages(optest::Damage* out, uint64_t room) {
  return optest::handed_over(optest::blocks().take_damages(), out, room);
}

OPTEST_EXPORT uint64_t optest_guard_take_faults(optest::Fault* out, uint64_t room) {
#if defined(OPTEST_GUARD_PAGES)
  return optest::handed_over(optest::GuardPages::instance().take_faults(), out, room);
#else
  (void)out, (void)room;
  return 0;
#endif
}

// Blocks that should have got pages and got bytes, since last asked.
OPTEST_EXPORT uint64_t optest_guard_take_without_pages() {
  return optest::without_pages.exchange(0);
}
