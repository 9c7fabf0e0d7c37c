#include "executor/local/local_executor.h"

#include "confine/workspace.h"
#include "executor/local/local_guest.h"
#include "executor/local/scratch.h"

namespace cella::executor {

LocalExecutor::LocalExecutor(confine::LaunchContext context, LocalHost local)
    : context_(std::move(context)), local_(std::move(local)) {
  LocalScratch::Sweep(local_.tmpdir);
}

async::Task<Result<std::unique_ptr<run::Guest>>> LocalExecutor::Open(run::GuestSpec spec, const RunSpec*,
                                                                     run::StopToken) {
  if (!spec.policy.rootfs.empty() || !spec.policy.mounts.empty()) {
    co_return Err(ErrorCode::kInvalid, "the local executor has no mounts and no rootfs; use --executor sandbox");
  }
  CO_TRY_VOID(confine::CheckWorkdir(spec.policy.workdir));
  CO_TRY(LocalScratch scratch, LocalScratch::Create(local_.tmpdir));
  auto guest = co_await LocalGuest::Open(context_, local_, std::move(scratch), std::move(spec));
  co_return guest;
}

}  // namespace cella::executor
