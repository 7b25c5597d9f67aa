// Which pages of this process's memory exist: a page of fresh memory does from its first access on.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__linux__)

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#endif

namespace optest {

#if defined(__linux__)

// Linux's /proc/self/pagemap: a word for each page (Documentation/admin-guide/mm/pagemap.rst).
class PageMap {
 public:
  // Opened anew each time: what a child inherits is its parent's.
  PageMap() : file_(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)) {}
  ~PageMap() {
    if (file_ >= 0) close(file_);
  }
  PageMap(const PageMap&) = delete;
  PageMap& operator=(const PageMap&) = delete;

  // Calls `told(data, nbytes, touched)` for each run of pages of one kind, within what was asked
  // for. Where the system does not say, all are taken to have been touched.
  template <class Told>
  void runs(char* data, size_t nbytes, Told told) const {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const auto begin = reinterpret_cast<uintptr_t>(data);
    const uintptr_t end = begin + nbytes;
    std::array<uint64_t, 4096> words;
    uintptr_t from = begin;  // of the run
    bool touched = true;
    for (uintptr_t at = begin / page; at * page < end;) {
      const size_t wanted = std::min<size_t>(words.size(), (end - 1) / page + 1 - at);
      const size_t got = read_words(at, words.data(), wanted);
      for (size_t i = 0; i < std::max<size_t>(got, 1); ++i, ++at) {
        const bool now = got == 0 || (words[i] & kPresentOrSwapped) != 0;
        if (now == touched) continue;
        const uintptr_t to = std::max(at * page, begin);
        if (to > from) told(reinterpret_cast<char*>(from), to - from, touched);
        from = to;
        touched = now;
      }
    }
    if (end > from) told(reinterpret_cast<char*>(from), end - from, touched);
  }

 private:
  static constexpr uint64_t kPresentOrSwapped = uint64_t{3} << 62;

  size_t read_words(uintptr_t page, uint64_t* words, size_t count) const {
    if (file_ < 0) return 0;
    const auto offset = static_cast<off_t>(page * sizeof(uint64_t));
    const ssize_t got = pread(file_, words, count * sizeof(uint64_t), offset);
    return got <= 0 ? 0 : static_cast<size_t>(got) / sizeof(uint64_t);
  }

  int file_;
};

#else

class PageMap {
 public:
  template <class Told>
  void runs(char* data, size_t nbytes, Told told) const {
    if (nbytes != 0) told(data, nbytes, true);
  }
};

#endif

}  // namespace optest
