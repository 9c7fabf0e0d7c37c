#include "executor/subprocess/subprocess_executor.h"

#include "confine/workspace.h"
#include "executor/local/scratch.h"
#include "executor/subprocess/subprocess_guest.h"

namespace cella::executor {

SubprocessExecutor::SubprocessExecutor(confine::LaunchContext context, LocalHost local, jupyter::KernelHost kernels)
    : context_(std::move(context)), local_(std::move(local)), kernels_(std::move(kernels)) {
  LocalScratch::Sweep(local_.tmpdir);
}

async::Task<Result<std::unique_ptr<run::Guest>>> SubprocessExecutor::Open(run::GuestSpec spec, const RunSpec* only,
                                                                          run::StopToken stop) {
  const bool has_mounts = !spec.policy.mounts.empty() && !spec.policy.jail;
  if (!spec.policy.rootfs.empty() || has_mounts) {
    co_return Err(ErrorCode::kInvalid,
                  "the subprocess executor has no rootfs, and mounts only in a jail; use --executor sandbox");
  }
  if (only != nullptr && !only->args.empty()) {
    co_return Err(ErrorCode::kInvalid, "a kernel takes no arguments; use --executor sandbox or local");
  }
  CO_TRY_VOID(confine::CheckWorkdir(spec.policy.workdir));
  CO_TRY(LocalScratch scratch, LocalScratch::Create(local_.tmpdir));
  auto guest = co_await SubprocessGuest::Open(context_, local_, kernels_, tcp_kernels_, std::move(scratch),
                                              std::move(spec), stop);
  co_return guest;
}

}  // namespace cella::executor
