// The raw interface of torch's allocator, which hands out bare addresses.

#include <c10/core/CPUAllocator.h>

#include <cstdint>

int64_t raw_allocate(int64_t nbytes) {
  return reinterpret_cast<int64_t>(c10::GetCPUAllocator()->raw_allocate(static_cast<size_t>(nbytes)));
}

void raw_deallocate(int64_t address) {
  c10::GetCPUAllocator()->raw_deallocate(reinterpret_cast<void*>(address));
}
