// The storages that the sessions of one process use: each directory is opened once, however many sessions share it, and
// its files are read and written on threads of a pool, which storages of different clients share fairly. Lives on the
// loop; outlives the sessions.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "async/blocking_pool.h"
#include "async/gate.h"
#include "async/task.h"
#include "storage/file_storage.h"

namespace cella::storage {

class Service {
 public:
  Service(async::Loop& loop, CheckSources check)
      : loop_(loop), check_(std::move(check)), opening_(loop, 1), pool_(loop, {.threads = kThreads, .queue = 4096}) {}

  // `path` is a real path. The bounds are those of who opens it first.
  async::Task<Result<std::shared_ptr<FileStorage>>> Open(std::string path, Bounds bounds);

  // Guests in jails may write to these directories from now on (real paths), and what they leave there outlives them.
  // Why they must not, because a storage that is open lies there; empty: they may.
  std::string NoteWritable(const std::vector<std::string>& directories);
  // Why no storage may be at `path`; empty: it may.
  std::string WhyNot(const std::string& path) const;

  // Calls `work`, which reads or writes `storage`, on a thread, and gives its Result. A server keeps the storages of a
  // client in one directory. The calls of one such directory take at most half of the threads, so that a guest that
  // calls without end does not hold up other clients. kExhausted: too many calls are before it.
  template <async::Blocking F>
  async::Task<std::invoke_result_t<F&>> Run(const FileStorage& storage, F work) {
    const std::shared_ptr<async::Gate> gate = GateOf(storage.path());
    auto pass = co_await gate->EnterOr(async::SleepUntil(async::Clock::now() + kPatience));
    if (!pass) co_return Err(ErrorCode::kExhausted, "the storage is busy: try again later");
    auto answer = co_await pool_.Run(std::move(work));
    co_return answer;
  }
  // For files that are not a storage's.
  async::BlockingPool& pool() { return pool_; }

 private:
  static constexpr size_t kThreads = 4;
  static constexpr std::chrono::seconds kPatience{30};

  std::shared_ptr<async::Gate> GateOf(const std::string& path);

  async::Loop& loop_;
  const CheckSources check_;
  std::map<std::string, std::shared_ptr<async::Gate>> gates_;  // by the directory above the storage
  std::map<std::string, std::weak_ptr<FileStorage>> open_;
  std::set<std::string> writable_;
  async::Gate opening_;
  async::BlockingPool pool_;
};

// Why a storage must not be at `path`: guests may write to one of these directories (real paths), so that a guest could
// put something there that is trusted later. Empty: it may.
std::string WhyWritable(const std::string& path, const std::vector<std::string>& guest_writable);

}  // namespace cella::storage
