#include "executor/inprocess/inprocess_executor.h"

#include "confine/workspace.h"
#include "executor/inprocess/plain_guest.h"
#include "executor/local/scratch.h"

namespace cella::executor {

InProcessExecutor::InProcessExecutor(confine::LaunchContext context, LocalHost local)
    : context_(std::move(context)), local_(std::move(local)) {
  LocalScratch::Sweep(local_.tmpdir);
}

async::Task<Result<std::unique_ptr<run::Guest>>> InProcessExecutor::Open(run::GuestSpec spec, const RunSpec* only,
                                                                         run::StopToken) {
  if (!spec.policy.rootfs.empty() || !spec.policy.mounts.empty()) {
    co_return Err(ErrorCode::kInvalid, "the inprocess executor has no mounts and no rootfs; use --executor sandbox");
  }
  CO_TRY_VOID(confine::CheckWorkdir(spec.policy.workdir));
  CO_TRY(LocalScratch scratch, LocalScratch::Create(local_.tmpdir));
  auto guest = co_await PlainGuest::Open(context_, local_, std::move(scratch), std::move(spec), only);
  co_return guest;
}

}  // namespace cella::executor
