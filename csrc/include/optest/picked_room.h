// What the kernels that pick elements from rows (picked.inl) are given from outside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace optest {

// Elements that nobody has written: their pages are met as they are used.
template <class T>
class Raw {
 public:
  // Room for so many; what was in it may be gone.
  T* provide(size_t elements) {
    if (size_ < elements) {
      memory_.reset(new T[elements]);
      size_ = elements;
    }
    return memory_.get();
  }

 private:
  std::unique_ptr<T[]> memory_;
  size_t size_ = 0;
};

// Above what lies a little more than k of a row, as the row before had it: rows that follow one another are
// alike mostly. Where one is not it has to be read twice, and those that follow are sampled first.
struct Guess {
  float threshold = 0.0f;
  int64_t k = 0;
  int64_t length = 0;
  int64_t rows_to_sample = 0;

  bool holds_for(int64_t row_length, int64_t row_k) {
    if (rows_to_sample > 0) {
      --rows_to_sample;
      return false;
    }
    return k == row_k && length == row_length;
  }

  void missed() {
    constexpr int64_t many = 16;
    rows_to_sample = many;
  }
};

// Room for elements that are picked, for their columns and their keys, kept from row to row.
struct PickedRoom {
  Raw<float> values;
  Raw<int32_t> columns;
  Raw<int32_t> keys;
  Guess guess;
};

}  // namespace optest
