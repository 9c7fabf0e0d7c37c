#include "executor/subprocess/subprocess_executor.h"

#include "confine/workspace.h"
#include "executor/local/scratch.h"
#include "executor/subprocess/subprocess_guest.h"

namespace cella::executor {

SubprocessExecutor::SubprocessExecutor(confine::LaunchContext context, LocalHost local, jupyter::KernelHost kernels,
                                       KernelEnvironments* environments, size_t ahead)
    : context_(std::move(context)),
      local_(std::move(local)),
      kernels_(std::move(kernels)),
      environments_(environments),
      zygotes_(context_, local_.tmpdir),
      pool_(context_.loop, ahead,
            [this](run::GuestSpec spec, run::StopToken stop) { return Make(std::move(spec), MadeFor::kPool, stop); }) {
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
  if (auto ready = co_await pool_.Take(spec)) {
    ready->Adopt(std::move(spec));
    co_return std::unique_ptr<run::Guest>(std::move(ready));
  }
  auto made = co_await Make(std::move(spec), MadeFor::kClient, stop);
  if (!made) co_return std::unexpected(std::move(made.error()));
  co_return std::unique_ptr<run::Guest>(std::move(*made));
}

async::Task<Result<std::unique_ptr<SubprocessGuest>>> SubprocessExecutor::Make(run::GuestSpec spec, MadeFor whom,
                                                                               run::StopToken stop) {
  CO_TRY(LocalScratch scratch, LocalScratch::Create(local_.tmpdir));
  const SubprocessGuest::Host host{
      context_, local_, kernels_, environments_, tcp_kernels_, zygotes_, whom == MadeFor::kPool};
  auto guest = co_await SubprocessGuest::Open(host, std::move(scratch), std::move(spec), stop);
  co_return guest;
}

async::Task<void> SubprocessExecutor::Close() {
  co_await pool_.Close();
  co_await zygotes_.Close();
}

}  // namespace cella::executor
