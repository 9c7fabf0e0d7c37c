// One descriptor of a program and its window: bytes to it wait here, bytes from it are read as the supervisor takes
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/wire.h"
#include "base/unique_fd.h"

namespace cella::agent {

class Channel {
 public:
  Channel() = default;
  // `fd` becomes non-blocking.
  Channel(uint32_t number, UniqueFd fd);

  uint32_t number() const { return number_; }
  int fd() const { return fd_.get(); }
  bool is_open() const { return static_cast<bool>(fd_); }
  void Close();

  // Towards the program. False: more than the window.
  bool Take(std::string_view bytes);
  bool wants_write() const { return is_open() && !pending_.empty(); }
  // Writes what the descriptor takes; the number of bytes that left the window.
  uint32_t Write();
  void CloseWhenWritten();

  // From the program.
  void AddCredit(uint32_t bytes);
  bool may_read() const { return is_open() && credit_ > 0; }
  enum class Got { kBytes, kNothing, kEnd };
  // At most `at_most` bytes, appended.
  Got Read(std::string& into, size_t at_most);
  // Of a socket, with the descriptors that came along.
  Got Receive(std::string& into, std::vector<UniqueFd>& fds);

 private:
  uint32_t number_ = 0;
  UniqueFd fd_;
  std::string pending_;
  bool closes_ = false;
  uint32_t credit_ = kWindow;
};

}  // namespace cella::agent
