#include "confine/launcher.h"

#include <fcntl.h>

#include "os/io.h"
#include "os/process.h"

namespace cella::confine {

async::Task<Result<std::vector<UniqueFd>>> SourceOpener::Wait() {
  auto opened = co_await init_.WaitBuilt(false);
  if (!opened) co_return std::unexpected(std::move(opened.error()));
  co_return std::move(opened->fds);
}

Result<Launcher> Launcher::Start(async::Loop& loop, const std::string& program) {
  TRY(os::SocketPair sockets, os::MakeMessageSockets());
  UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) return SysErr(errno, "open '/dev/null'");
  os::SpawnOptions options;
  options.program = program;
  options.argv = {"cella-launch"};
  options.fds = {{null.get(), 0}, {null.get(), 1}, {null.get(), 2}, {sockets.theirs.get(), jail::kControlFd}};
  auto process = os::Process::Spawn(options);
  if (!process) return std::unexpected(std::move(process.error()).WithContext("the launcher"));
  return Launcher(InitProcess(loop, std::move(*process), std::move(sockets.ours)));
}

Status Launcher::Build(JailSpecBuilder& builder, const os::Cgroup& cgroup) {
  builder.spec().cgroup_v1_count = static_cast<uint32_t>(cgroup.v1_tasks().size());
  builder.spec().cgroup_v2 = cgroup.v2_dir() >= 0 ? 1 : 0;
  TRY(UniqueFd spec, builder.Finish());
  std::vector<int> fds = {spec.get()};
  for (const UniqueFd& tasks : cgroup.v1_tasks()) fds.push_back(tasks.get());
  if (cgroup.v2_dir() >= 0) fds.push_back(cgroup.v2_dir());
  jail::Request request = {};
  request.kind = jail::RequestKind::kBuild;
  return process_.Send(request, fds);
}

Result<Jail> Launcher::BuildJail(JailSpecBuilder& builder, const os::Cgroup& cgroup) && {
  const bool has_init = (builder.spec().flags & jail::kUnconfined) == 0;
  TRY_VOID(Build(builder, cgroup));
  return Jail(std::move(process_), has_init);
}

Result<Maker> Launcher::BuildMaker(JailSpecBuilder& builder) && {
  builder.spec().flags |= jail::kMaker;
  TRY_VOID(Build(builder, os::Cgroup()));
  return Maker(std::move(process_));
}

Result<SourceOpener> Launcher::OpenSources(JailSpecBuilder& builder) && {
  builder.spec().flags |= jail::kOpenSources;
  TRY_VOID(Build(builder, os::Cgroup()));
  return SourceOpener(std::move(process_));
}

}  // namespace cella::confine
