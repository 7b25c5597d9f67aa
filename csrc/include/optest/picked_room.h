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

// Room for elements that are picked, for their columns and their keys, kept from row to row.
struct PickedRoom {
  Raw<float> values;
  Raw<int32_t> columns;
  Raw<int32_t> keys;
};

}  // namespace optest
