// Blocks of memory with canary bytes on both sides, and what became of those bytes.
#pragma once

#include "optest/canary.h"
#include "optest/guard_pages.h"

#include <c10/core/Allocator.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace optest {

// Canary bytes that did not hold. Offsets are from the first byte of the block: negative before it,
// from `nbytes` on behind it.
struct Damage {
  uint64_t data;
  uint64_t nbytes;
  int64_t first;
  int64_t last;
  uint64_t count;
  uint64_t zone;  // how many bytes on that side were looked at
};

// One block and the zones beside it. The zones are part of what was allocated for it.
class Block {
 public:
  static constexpr size_t kAlignment = 64;

  // An eighth of the block, so that a row or a tile too many is seen, from 256 bytes to 4 KiB.
  static size_t zone_of(size_t nbytes) {
    const size_t eighth = nbytes / 8 / kAlignment * kAlignment;
    return std::min<size_t>(std::max<size_t>(eighth, 256), 4096);
  }

  static Block on_heap(c10::Allocator& inner, size_t nbytes) {
    const size_t zone = zone_of(nbytes);
    Block block;
    block.heap_ = inner.allocate(zone + nbytes + zone);
    block.data_ = static_cast<char*>(block.heap_.get()) + zone;
    block.nbytes_ = nbytes;
    block.lead_ = block.tail_ = zone;
    block.fill();
    return block;
  }

#if defined(OPTEST_GUARD_PAGES)
  static Block between_pages(Mapping* mapping) {
    const GuardPages& pages = GuardPages::instance();
    Block block;
    block.mapping_ = mapping;
    block.data_ = reinterpret_cast<char*>(mapping->data);
    block.nbytes_ = mapping->nbytes;
    block.lead_ = pages.lead(*mapping);
    block.tail_ = pages.slack(*mapping);
    block.fill();
    return block;
  }
#endif

  char* data() const { return data_; }
  size_t nbytes() const { return nbytes_; }

  bool is_paged() const {
#if defined(OPTEST_GUARD_PAGES)
    return mapping_ != nullptr;
#else
    return false;
#endif
  }

  c10::Device device() const { return c10::Device(c10::DeviceType::CPU); }

  // Tells of each zone that does not hold what it should, and puts it in order.
  template <class Told>
  void check(Told told) const {
    const Canary canary(data_);
    char* const before = data_ - lead_;
    char* const behind = data_ + nbytes_;
    look(canary, before, lead_, told);
    look(canary, behind, tail_, told);
  }

  void give_back() {
#if defined(OPTEST_GUARD_PAGES)
    if (mapping_ != nullptr) GuardPages::instance().unmap(mapping_);
#endif
    heap_.clear();
  }

 private:
  void fill() const {
    const Canary canary(data_);
    canary.fill(data_ - lead_, lead_);
    canary.fill(data_ + nbytes_, tail_);
  }

  template <class Told>
  void look(const Canary& canary, char* zone, size_t size, Told& told) const {
    const Change change = canary.compare(zone, size);
    if (change.count == 0) return;
    const auto from = static_cast<int64_t>(zone - data_);
    told(Damage{reinterpret_cast<uint64_t>(data_), nbytes_,
                from + static_cast<int64_t>(change.first),
                from + static_cast<int64_t>(change.last), change.count, size});
    canary.fill(zone, size);
  }

  c10::DataPtr heap_;
#if defined(OPTEST_GUARD_PAGES)
  Mapping* mapping_ = nullptr;
#endif
  char* data_ = nullptr;
  size_t nbytes_ = 0, lead_ = 0, tail_ = 0;
};

// The blocks that are alive, by their first byte, and the damage not yet taken.
class GuardedBlocks {
 public:
  void* add(Block block) {
    char* const data = block.data();
    const std::lock_guard<std::mutex> lock(mutex_);
    live_bytes_[block.is_paged()] += block.nbytes();
    blocks_.emplace(data, std::move(block));
    return data;
  }

  // Remembers that pages of a block that were never touched are to hold `byte`.
  void owe(char* data, int byte) {
    const std::lock_guard<std::mutex> lock(mutex_);
    owed_.push_back({data, byte});
  }

  // Calls `fill(data, byte, nbytes)` for each block that is alive and owes something.
  template <class Fill>
  void settle(Fill fill) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Owed& each : std::exchange(owed_, {})) {
      fill(each.data, each.byte, blocks_.at(each.data).nbytes());
    }
  }

  // False where there is no such block.
  bool release(void* data) {
    std::unique_lock<std::mutex> lock(mutex_);
    auto node = blocks_.extract(data);
    if (node.empty()) return false;
    owed_.erase(std::remove_if(owed_.begin(), owed_.end(),
                               [data](const Owed& each) { return each.data == data; }),
                owed_.end());
    Block& block = node.mapped();
    live_bytes_[block.is_paged()] -= block.nbytes();
    block.check([this](const Damage& damage) { note(damage); });
    lock.unlock();
    block.give_back();
    return true;
  }

  // Looks at all blocks, or at those of the `count` addresses in `which`; returns how many damages
  // there are to be taken, those of blocks that were freed included.
  size_t check(const void* const* which, size_t count) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto told = [this](const Damage& damage) { note(damage); };
    if (which == nullptr) {
      for (const auto& entry : blocks_) entry.second.check(told);
    } else {
      for (size_t i = 0; i < count; ++i) {
        const auto found = blocks_.find(which[i]);
        if (found != blocks_.end()) found->second.check(told);
      }
    }
    return damages_.size();
  }

  std::vector<Damage> take_damages() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(damages_, {});
  }

  bool knows(const void* data) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return blocks_.count(data) != 0;
  }

  // Of the blocks between pages, or of the others.
  uint64_t live_bytes(bool paged) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return live_bytes_[paged];
  }

  std::mutex& mutex() { return mutex_; }

 private:
  // A kernel that damages every block of a long run shall not fill memory with the news of it.
  static constexpr size_t kMostDamages = 1024;

  struct Owed {
    char* data;
    int byte;
  };

  void note(const Damage& damage) {
    if (damages_.size() < kMostDamages) damages_.push_back(damage);
  }

  std::mutex mutex_;
  std::unordered_map<const void*, Block> blocks_;
  std::vector<Damage> damages_;
  std::vector<Owed> owed_;
  uint64_t live_bytes_[2] = {0, 0};
};

}  // namespace optest
