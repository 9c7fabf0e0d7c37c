#include "confine/maker.h"

#include <vector>

#include "os/io.h"

namespace cella::confine {

async::Task<Status> Maker::WaitReady() {
  auto built = co_await init_.WaitBuilt(true);
  if (!built) co_return std::unexpected(std::move(built.error()));
  init_.ReapLauncher();
  co_return Status{};
}

Result<Jail> Maker::MakeEmptyJail(const jail::EmptyJailSpec& jail, std::span<const int> cgroups,
                                  std::span<const UniqueFd> mounts) {
  TRY(os::SocketPair sockets, os::MakeMessageSockets());
  jail::Request request = {};
  request.kind = jail::RequestKind::kEmptyJail;
  request.jail = jail;
  request.jail.cgroup_count = static_cast<uint32_t>(cgroups.size());
  request.jail.mount_count = static_cast<uint32_t>(mounts.size());
  std::vector<int> fds = {sockets.theirs.get()};
  fds.insert(fds.end(), cgroups.begin(), cgroups.end());
  for (const UniqueFd& mount : mounts) fds.push_back(mount.get());
  TRY_VOID(init_.Send(request, fds));
  return Jail(InitProcess(init_.loop(), std::nullopt, std::move(sockets.ours)), true);
}

Result<UniqueFd> Maker::Spawn(const ExecRequest& exec, std::span<const int> cgroups) {
  TRY(os::SocketPair sockets, os::MakeMessageSockets());
  TRY(UniqueFd block, EncodeExec(exec));
  jail::Request request = {};
  request.kind = jail::RequestKind::kSpawn;
  std::vector<int> fds = {block.get(), sockets.theirs.get()};
  fds.insert(fds.end(), cgroups.begin(), cgroups.end());
  TRY_VOID(init_.Send(request, fds));
  return std::move(sockets.ours);
}

}  // namespace cella::confine
