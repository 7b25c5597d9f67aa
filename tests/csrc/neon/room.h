// An array that ends where memory ends: what is read or written behind it is a fault of the machine.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace check {

template <class T>
class Room {
 public:
  explicit Room(int64_t n) : n_(n) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t bytes = static_cast<size_t>(n) * sizeof(T);
    const size_t pages = (bytes + page - 1) / page * page;
    mapped_ = pages + page;
    void* const made =
        mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) give_up("mmap");
    begin_ = static_cast<char*>(made);
    if (mprotect(begin_ + pages, page, PROT_NONE) != 0) give_up("mprotect");
    at_ = reinterpret_cast<T*>(begin_ + pages - bytes);
    std::memset(begin_, 0x55, pages);
  }
  Room(const Room& other) : Room(other.n_) {
    std::memcpy(at_, other.at_, static_cast<size_t>(n_) * sizeof(T));
  }
  Room& operator=(const Room&) = delete;
  ~Room() { munmap(begin_, mapped_); }

  T* data() const { return at_; }
  T& operator[](int64_t i) const { return at_[i]; }
  int64_t size() const { return n_; }

 private:
  static void give_up(const char* what) {
    std::perror(what);
    std::exit(2);
  }

  char* begin_;
  size_t mapped_;
  T* at_;
  int64_t n_;
};

}  // namespace check
