// Memory between pages that nobody may touch. An access there is recorded, the pages are opened, and
// the kernel goes on: nothing crashes, and what was read or written beyond the end is known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#if defined(__linux__)

#define OPTEST_GUARD_PAGES 1

#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <mutex>
#include <utility>

#endif

namespace optest {

enum class Access : int32_t { kUnknown = 0, kRead = 1, kWrite = 2 };

// The first access of its kind to the pages on one side of a block. `offset` is from the first byte
// of the block: negative before it, from `nbytes` on behind it.
struct Fault {
  uint64_t data;
  uint64_t nbytes;
  int64_t offset;
  Access access;
};

#if defined(OPTEST_GUARD_PAGES)

// One block: closed pages, pages for the data, closed pages. The data ends where the second closed
// pages begin, but for what aligns its start. The fault handler reads it without a lock.
struct Mapping {
  struct Side {
    std::atomic<uintptr_t> read_at{0};
    std::atomic<uintptr_t> written_at{0};
    std::atomic<uintptr_t> touched_at{0};

    bool was_opened() const { return read_at != 0 || written_at != 0 || touched_at != 0; }
  };

  std::atomic<uintptr_t> base{0};  // 0: the entry is free
  size_t length = 0;
  uintptr_t data = 0;
  size_t nbytes = 0;
  Side before, after;
};

class GuardPages {
 public:
  static constexpr size_t kAlignment = 64;

  // The one there is: a signal has one handler. Never destroyed, for blocks may outlive statics.
  static GuardPages& instance() {
    static GuardPages* const made = new GuardPages;
    return *made;
  }

  // Puts the handler in front of the one that is there; does nothing where it is in front already.
  void catch_faults() {
    struct sigaction now {};
    sigaction(SIGSEGV, nullptr, &now);
    if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_fault) return;
    previous_ = now;
    struct sigaction ours {};
    ours.sa_sigaction = on_fault;
    // NODEFER: a handler that we pass a fault on to may raise the signal again, to die of it.
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&ours.sa_mask);
    sigaction(SIGSEGV, &ours, nullptr);
  }

  // Null where there are too many already, or the system gives no more.
  Mapping* map(size_t nbytes) {
    const size_t aligned = rounded_up(nbytes, kAlignment);
    const size_t inside = rounded_up(aligned, page_);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (free_.empty() || inside > most_bytes_ - bytes_) return nullptr;
    const size_t length = inside + 2 * closed_;
    void* const base = mmap(nullptr, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return nullptr;
    char* const first = static_cast<char*>(base) + closed_;
    if (mprotect(first, inside, PROT_READ | PROT_WRITE) != 0) {
      munmap(base, length);
      return nullptr;
    }
    Mapping* const entry = free_.back();
    free_.pop_back();
    ever_used_ = std::max(ever_used_, static_cast<size_t>(entry - entries_) + 1);
    bytes_ += inside;
    entry->length = length;
    entry->data = reinterpret_cast<uintptr_t>(first) + inside - aligned;
    entry->nbytes = nbytes;
    entry->base.store(reinterpret_cast<uintptr_t>(base), std::memory_order_release);
    return entry;
  }

  void unmap(Mapping* entry) {
    const std::lock_guard<std::mutex> lock(mutex_);
    note(*entry);
    void* const base = reinterpret_cast<void*>(entry->base.load());
    entry->base.store(0, std::memory_order_release);
    bytes_ -= entry->length - 2 * closed_;
    munmap(base, entry->length);
    free_.push_back(entry);
  }

  // Bytes from the first that the block's pages hold to the block's own first, and behind its last.
  size_t lead(const Mapping& entry) const { return entry.data - entry.base - closed_; }
  size_t slack(const Mapping& entry) const {
    return rounded_up(entry.nbytes, kAlignment) - entry.nbytes;
  }

  // Closes what was opened; returns how many faults there are to take.
  size_t close() {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (size_t i = 0; i < ever_used_; ++i) {
      if (entries_[i].base != 0) note(entries_[i]);
    }
    return faults_.size();
  }

  std::vector<Fault> take_faults() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(faults_, {});
  }

  std::mutex& mutex() { return mutex_; }

 private:
  static constexpr size_t kMost = 4096;
  static constexpr size_t kMostFaults = 1024;

  GuardPages() : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    closed_ = rounded_up(size_t{64} << 10, page_);
    most_bytes_ = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * page_ / 2;
    // A block takes up to three of the kernel's map entries, and others need some too.
    const size_t most = std::min(kMost, system_maps() / 8);
    for (size_t i = most; i-- > 0;) free_.push_back(&entries_[i]);
  }

  static size_t rounded_up(size_t size, size_t to) { return (size + to - 1) / to * to; }

  static size_t system_maps() {
    size_t most = 65530;
    if (FILE* const file = std::fopen("/proc/sys/vm/max_map_count", "re")) {
      if (std::fscanf(file, "%zu", &most) != 1) most = 65530;
      std::fclose(file);
    }
    return most;
  }

  void note(Mapping& entry) {
    note(entry, entry.before, entry.base);
    note(entry, entry.after, entry.base + entry.length - closed_);
  }

  void note(Mapping& entry, Mapping::Side& side, uintptr_t pages) {
    if (!side.was_opened()) return;
    mprotect(reinterpret_cast<void*>(pages), closed_, PROT_NONE);
    add(entry, Access::kRead, side.read_at.exchange(0));
    add(entry, Access::kWrite, side.written_at.exchange(0));
    add(entry, Access::kUnknown, side.touched_at.exchange(0));
  }

  void add(const Mapping& entry, Access access, uintptr_t at) {
    if (at == 0 || faults_.size() >= kMostFaults) return;
    const auto offset = static_cast<int64_t>(at) - static_cast<int64_t>(entry.data);
    faults_.push_back({entry.data, entry.nbytes, offset, access});
  }

  // From here on: runs in the handler, in any thread; no lock, no allocation.

  static void on_fault(int signal, siginfo_t* info, void* context) {
    GuardPages& self = instance();  // made before the handler was
    const int error = errno;
    const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
    const bool is_ours = info->si_code > 0 && self.absorb(at, access_of(context));
    errno = error;
    if (!is_ours) self.pass_on(signal, info, context);
  }

  bool absorb(uintptr_t at, Access access) {
    for (Mapping& entry : entries_) {
      const uintptr_t base = entry.base.load(std::memory_order_acquire);
      if (base == 0 || at < base || at >= base + entry.length) continue;
      const uintptr_t behind = base + entry.length - closed_;
      if (at < base + closed_) return open(entry.before, base, at, access);
      return at >= behind && open(entry.after, behind, at, access);
    }
    return false;
  }

  // A read opens the pages for reading, so that a write after it is seen as well.
  bool open(Mapping::Side& side, uintptr_t pages, uintptr_t at, Access access) {
    std::atomic<uintptr_t>& slot = access == Access::kRead    ? side.read_at
                                   : access == Access::kWrite ? side.written_at
                                                              : side.touched_at;
    uintptr_t none = 0;
    slot.compare_exchange_strong(none, at);
    const bool wide = side.written_at != 0 || side.touched_at != 0;
    const int protection = wide ? PROT_READ | PROT_WRITE : PROT_READ;
    return mprotect(reinterpret_cast<void*>(pages), closed_, protection) == 0;
  }

  static Access access_of(void* context) {
#if defined(__x86_64__)
    const auto* const state = static_cast<const ucontext_t*>(context);
    const auto error = static_cast<uint64_t>(state->uc_mcontext.gregs[REG_ERR]);
    return (error & 2) != 0 ? Access::kWrite : Access::kRead;
#elif defined(__aarch64__)
    // The syndrome lies in a list of records behind the registers.
    const auto* const state = static_cast<const ucontext_t*>(context);
    const auto* at = reinterpret_cast<const char*>(state->uc_mcontext.__reserved);
    const auto* const end = at + sizeof(state->uc_mcontext.__reserved);
    while (at + sizeof(_aarch64_ctx) <= end) {
      const auto* const record = reinterpret_cast<const _aarch64_ctx*>(at);
      if (record->magic == ESR_MAGIC) {
        const uint64_t syndrome = reinterpret_cast<const esr_context*>(at)->esr;
        return (syndrome & (1u << 6)) != 0 ? Access::kWrite : Access::kRead;
      }
      if (record->magic == 0 || record->size == 0) break;
      at += record->size;
    }
    return Access::kUnknown;
#else
    (void)context;
    return Access::kUnknown;
#endif
  }

  void pass_on(int signal, siginfo_t* info, void* context) {
    const bool was_sent = info->si_code <= 0;  // by kill or raise: no instruction will fault again
    const bool is_plain = (previous_.sa_flags & SA_SIGINFO) == 0;
    if (is_plain && previous_.sa_handler == SIG_IGN && was_sent) return;
    const auto thread = static_cast<pid_t>(syscall(SYS_gettid));
    const bool is_default =
        is_plain && (previous_.sa_handler == SIG_DFL || previous_.sa_handler == SIG_IGN);
    // A handler that gives the signal back to us knows no other: the system's own is left.
    if (is_default || passing_.load() == thread) {
      struct sigaction system {};
      system.sa_handler = SIG_DFL;
      sigaction(signal, &system, nullptr);
      if (was_sent) raise(signal);
      return;
    }
    passing_.store(thread);
    if (is_plain) {
      previous_.sa_handler(signal);
    } else {
      previous_.sa_sigaction(signal, info, context);
    }
    passing_.store(0);
  }

  Mapping entries_[kMost];
  size_t page_;
  size_t closed_ = 0;
  size_t most_bytes_ = 0;
  size_t bytes_ = 0;
  size_t ever_used_ = 0;
  std::mutex mutex_;
  std::vector<Mapping*> free_;
  std::vector<Fault> faults_;
  struct sigaction previous_ {};
  std::atomic<pid_t> passing_{0};
};

#endif

}  // namespace optest
