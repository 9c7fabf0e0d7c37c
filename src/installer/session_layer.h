// The packages that one session adds to those of its Python: resolved with them, installed beside them, seen by this
// session alone. A change makes a new generation, so that one that fails leaves the old one in use. Lives on the loop;
// Close it before it is destroyed.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "async/gate.h"
#include "installer/builder.h"

namespace cella::installer {

// What the session's Python has.
struct LayerBase {
  environment::BasePython python;
  std::vector<environment::Package> packages;
};

struct DepsChange {
  std::vector<environment::Package> added;
  std::vector<std::string> removed;
  std::vector<std::string> needs_restart;  // packages of the base that the layer has in another version
};

class SessionLayer {
 public:
  // Takes the directory that the session imports from next, and returns where the guest finds it; see run::Packages.
  using Use = std::function<async::Task<Result<std::string>>(std::string directory)>;

  SessionLayer(async::Loop& loop, Builder& builder, LayerBase base, std::vector<environment::Requirement> configured,
               uint64_t disk_limit, Use use)
      : builder_(builder),
        base_(std::move(base)),
        configured_(std::move(configured)),
        disk_limit_(disk_limit),
        use_(std::move(use)),
        turn_(loop, 1) {}

  // One change at a time; others wait. Installs them and what they need.
  async::Task<Result<DepsChange>> Add(std::vector<std::string> specs, Progress progress, run::StopToken stop);
  // False: no such package was asked for.
  async::Task<Result<bool>> Remove(std::string name, Progress progress, run::StopToken stop);
  // Installs what the session was configured with.
  async::Task<Result<DepsChange>> Sync(Progress progress, run::StopToken stop);

  // What was asked for: each name once, in canonical form.
  std::vector<std::string> List() const;
  // What is installed for it.
  const std::vector<environment::Package>& installed() const { return installed_; }

  // What `Use` returned last.
  const std::string& shown() const { return shown_; }
  // A change is on, or waits.
  bool is_busy() const { return changing_; }
  // After the session's guest has ended.
  async::Task<void> Close();

 private:
  // A module that was imported from an earlier one may import more of it, so that some are kept.
  struct Generation {
    std::string directory;
    uint64_t bytes = 0;
  };
  async::Task<void> DropOldGenerations();
  async::Task<Result<DepsChange>> Change(std::vector<environment::Requirement> wanted, Progress progress,
                                         run::StopToken stop);

  Builder& builder_;
  LayerBase base_;
  std::vector<environment::Requirement> configured_;
  const uint64_t disk_limit_;
  Use use_;
  async::Gate turn_;
  std::vector<environment::Requirement> wanted_;
  std::vector<environment::Package> installed_;
  std::vector<std::string> lock_;  // "name==version" of what is installed
  std::optional<environment::Store::Layer> layer_;
  std::string shown_;
  uint64_t generation_ = 0;
  std::deque<Generation> kept_;  // the oldest first
  bool changing_ = false;
};

}  // namespace cella::installer
