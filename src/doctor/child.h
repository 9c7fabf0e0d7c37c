// Steps that cannot be taken back (namespaces, mounts, filters) run in a forked child and answer through memory shared
// with it. For single-threaded callers only: the child goes on with a copy of everything.
#pragma once

#include <sys/mman.h>

#include <chrono>
#include <functional>
#include <new>
#include <type_traits>

namespace cella::doctor {

// A T that forked children share with us. Empty if the kernel gave no memory.
template <typename T>
class SharedMemory {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  SharedMemory() {
    void* memory = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) value_ = new (memory) T();
  }
  ~SharedMemory() {
    if (value_ != nullptr) (void)munmap(value_, sizeof(T));
  }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  T* get() const { return value_; }

 private:
  T* value_ = nullptr;
};

// Runs `body` in a child; false if the child could not be made, did not end in time (it is dead then), or crashed.
bool RunInChild(const std::function<void()>& body, std::chrono::milliseconds limit);

// Waits for the process of a pidfd and reaps it; kills it first when the limit is over. True: it exited with 0 in time.
bool WaitInTime(int pidfd, std::chrono::milliseconds limit);

// Dies with its parent. To be called again after each change of credentials, which the kernel answers by forgetting it.
void DieWithParent();

}  // namespace cella::doctor
