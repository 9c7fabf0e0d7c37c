// The storages that the sessions of one process use: each directory is opened once, however many sessions share it, and
// its files are read and written on threads of a pool. Lives on the loop; outlives the sessions.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "async/blocking_pool.h"
#include "async/gate.h"
#include "async/task.h"
#include "storage/file_storage.h"

namespace cella::storage {

class Service {
 public:
  Service(async::Loop& loop, CheckSources check)
      : check_(std::move(check)), opening_(loop, 1), pool_(loop, {.threads = 4, .queue = 4096}) {}

  // `path` is a real path. The bounds are those of who opens it first.
  async::Task<Result<std::shared_ptr<FileStorage>>> Open(std::string path, Bounds bounds);

  // Guests in jails may write to these directories from now on (real paths), and what they leave there outlives them.
  // Why they must not, because a storage that is open lies there; empty: they may.
  std::string NoteWritable(const std::vector<std::string>& directories);
  // Why no storage may be at `path`; empty: it may.
  std::string WhyNot(const std::string& path) const;

  async::BlockingPool& pool() { return pool_; }

 private:
  const CheckSources check_;
  std::map<std::string, std::weak_ptr<FileStorage>> open_;
  std::set<std::string> writable_;
  async::Gate opening_;
  async::BlockingPool pool_;
};

// Why a storage must not be at `path`: guests may write to one of these directories (real paths), so that a guest could
// put something there that is trusted later. Empty: it may.
std::string WhyWritable(const std::string& path, const std::vector<std::string>& guest_writable);

}  // namespace cella::storage
