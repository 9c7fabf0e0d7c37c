// The launcher: a process that waits for the spec of what it shall build, and becomes that. Lives on the loop.
#pragma once

#include <string>
#include <vector>

#include "async/task.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "confine/init_process.h"
#include "confine/jail.h"
#include "confine/maker.h"
#include "confine/spec_builder.h"
#include "os/cgroup.h"

namespace cella::confine {

// Opens directories of the host for one jail, as detached mounts: a maker has no view of the host.
class SourceOpener {
 public:
  explicit SourceOpener(InitProcess init) : init_(std::move(init)) {}
  async::Task<Result<std::vector<UniqueFd>>> Wait();
  async::Task<void> End() { return init_.End(); }

 private:
  InitProcess init_;
};

class Launcher {
 public:
  // Its start overlaps with whatever the caller prepares meanwhile.
  static Result<Launcher> Start(async::Loop& loop, const std::string& program);

  // Each sends the spec, and is the end of the launcher. What is being built says when it is ready. `cgroup` may be
  // empty.
  Result<Jail> BuildJail(JailSpecBuilder& builder, const os::Cgroup& cgroup) &&;  // or an unconfined tree
  Result<Maker> BuildMaker(JailSpecBuilder& builder) &&;
  Result<SourceOpener> OpenSources(JailSpecBuilder& builder) &&;

 private:
  explicit Launcher(InitProcess process) : process_(std::move(process)) {}
  Status Build(JailSpecBuilder& builder, const os::Cgroup& cgroup);

  InitProcess process_;
};

}  // namespace cella::confine
