// The file of a listening Unix socket: made with its final mode, replaced only when no server answers on it, removed
// only while it is ours. Internal to http.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace cella::http {

class SocketFile {
 public:
  struct Bound;
  // A bound socket that does not listen yet, and its file. kExhausted: another server has it.
  static Result<Bound> Bind(const std::string& path, mode_t mode);

  SocketFile(const SocketFile&) = delete;
  SocketFile& operator=(const SocketFile&) = delete;
  ~SocketFile();

 private:
  SocketFile(std::string path, UniqueFd lock) : path_(std::move(path)), lock_(std::move(lock)) {}

  std::string path_;
  UniqueFd lock_;  // of "PATH.lock", for as long as we are
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

struct SocketFile::Bound {
  UniqueFd fd;
  std::unique_ptr<SocketFile> file;
};

}  // namespace cella::http
