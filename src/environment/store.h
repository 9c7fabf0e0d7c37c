// The environments of one user or server on disk:
//   work/      what an installer's jail may write to: cache/ (wheels), staging/ID (builds), bytecode/ (what is
//   compiled) ready/KEY/ a finished environment: venv/, manifest.json; KEY.lease beside it is locked while it is used
//   built/KEY/ a wheel that was built from a source; layers/: packages that sessions add
//   requests/  what a request was resolved to; names/: the named environments; tools/: the installer; locks/
// All on one file system, so that files are shared by hard links and publishing is a rename. Blocks on the file system;
// safe from any thread, and between processes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "environment/request.h"

namespace cella::environment {

struct Package {
  std::string name;
  std::string version;
};

// What is known of a finished environment.
struct Manifest {
  std::string key;
  std::string python;   // the base interpreter
  std::string version;  // "3.12.1"
  std::vector<std::string> requested;
  std::vector<Package> packages;
  std::string lock;
  uint64_t bytes = 0;  // of all files
  uint64_t files = 0;
};

// A name that the user or a client of a server gave to an environment.
struct NamedEnvironment {
  std::string name;
  std::string python;  // as it was asked for; empty: the default
  std::vector<std::string> packages;
  std::vector<std::string> preload;
  std::string lock;
  std::string key;
  std::string owner{};     // a client of a server; empty: the user's, or the operator's, which all clients see
  bool automatic = false;  // a session of the owner asked for its packages; the name was made from them
};

// Shared while an environment is used, exclusive while it is built or removed. Ends with the process.
class StoreLock {
 public:
  StoreLock() = default;
  explicit StoreLock(UniqueFd fd) : fd_(std::move(fd)) {}

 private:
  UniqueFd fd_;
};

// A finished environment that cannot be removed as long as this lives.
struct Ready {
  Manifest manifest;
  std::string venv;
  StoreLock lease;
};

struct StoredEnvironment {
  Manifest manifest;
  std::vector<std::string> names;
  int64_t last_use = 0;  // seconds since 1970
  bool in_use = false;
  uint64_t uses = 0;  // by sessions and runs; where the kernel does not name the locks of others: one, if it is in use
};

// After which environments without a name are removed, also without `cella env gc`.
inline constexpr int64_t kUnusedSeconds = int64_t{30} * 24 * 60 * 60;

struct Collected {
  size_t environments = 0;
  uint64_t bytes = 0;
};

class Store {
 public:
  // `state_dir` is created if it is missing, with mode 0700.
  static Result<Store> Open(const std::string& state_dir);

  std::string root() const { return root_; }
  std::string work() const { return root_ + "/work"; }
  std::string ready() const { return root_ + "/ready"; }
  std::string layers() const { return root_ + "/layers"; }
  std::string tools() const { return root_ + "/tools"; }

  // What a request was resolved to; nothing: it never was, or longer ago than `max_age_seconds`.
  std::optional<std::string> FindLock(const std::string& request_key, int64_t max_age_seconds) const;
  Status KeepLock(const std::string& request_key, const std::string& lock) const;

  // Nothing: it is not built.
  std::optional<Ready> Find(const std::string& key) const;

  // kExhausted: another process holds it.
  Result<StoreLock> Lock(const std::string& name) const;
  Result<StoreLock> LockShared(const std::string& name) const;

  // A new directory below work/staging, removed by Sweep once its lock is free.
  struct Staging {
    std::string id;
    std::string path;
    StoreLock lock;
  };
  Result<Staging> MakeStaging() const;
  // Moves staging/ID/venv to its place; an environment that is there already stays.
  Status Publish(const Staging& staging, const Manifest& manifest) const;
  // Removes builds that no process works on.
  void Sweep() const;
  // Empties work/cache if it holds more bytes than that, unless the lock "cache" is held. Environments keep their
  // files, which are links of their own.
  void TrimCache(uint64_t most) const;

  // Wheels that were built from sources, apart from the cache: an installer's jail cannot write there. `key`: of the
  // source and of the Python and machine that it was built for. Nothing: there is none, or that is no key.
  std::optional<std::string> FindBuilt(const std::string& key) const;
  // Moves a directory of staging there; one that is there already stays.
  Status PublishBuilt(const std::string& directory, const std::string& key) const;

  // A place for the packages that one session adds; it is removed by RemoveLayer, or by Sweep once the lock is free.
  // Other sessions see the directory above it, but can neither list it nor guess the name.
  struct Layer {
    std::string name;
    StoreLock lock;
  };
  Result<Layer> MakeLayer() const;
  // Moves staging/ID/layer into the layer, as generation `number`. The result is its path below layers().
  Result<std::string> PublishLayer(const Staging& staging, const Layer& layer, uint64_t number) const;
  void RemoveLayer(const Layer& layer) const;

  Status SaveName(const NamedEnvironment& named) const;
  // The owner's, or else the one without an owner. kNotFound: names those that the owner sees.
  Result<NamedEnvironment> FindName(const std::string& name, const std::string& owner = "") const;
  // Of all owners.
  std::vector<NamedEnvironment> Names() const;
  // Of this very owner.
  Status RemoveName(const std::string& name, const std::string& owner = "") const;
  // Removes the environment if it has no name any more and no process uses it.
  void RemoveUnnamed(const std::string& key) const;

  std::vector<StoredEnvironment> List() const;
  // Removes environments without a name that no process uses, and that were not used for `unused_seconds`; then what
  // was resolved and built before that, and lock files that no process has needed for a day.
  Result<Collected> Collect(int64_t unused_seconds) const;

 private:
  explicit Store(std::string root) : root_(std::move(root)) {}
  bool RemoveReady(const std::string& key) const;
  void ForgetOld(int64_t unused_seconds) const;

  std::string root_;
};

// Removes what was built when it is not published. The staging outlives it, and with it the lock.
class StagingGuard {
 public:
  explicit StagingGuard(const Store::Staging& staging) : path_(staging.path) {}
  StagingGuard(const StagingGuard&) = delete;
  StagingGuard& operator=(const StagingGuard&) = delete;
  ~StagingGuard();

 private:
  std::string path_;
};

// Letters, digits, '-', '_' and '.', at most 64, beginning with a letter or digit.
bool IsEnvironmentName(std::string_view name);

// Removes a tree, also below directories without write permission. Follows no links.
void RemoveReadOnlyTree(const std::string& path);
// The same for all that is in it.
void EmptyReadOnlyTree(const std::string& path);

}  // namespace cella::environment
