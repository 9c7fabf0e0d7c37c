// Packages that a session adds to its IPython kernel. A jail shows the layers; an unconfined kernel reads them where
// they are on the host; into a virtual environment that is kept they are copied.
#include <algorithm>
#include <filesystem>

#include "executor/subprocess/prelude.h"
#include "executor/subprocess/subprocess_guest.h"
#include "executor/subprocess/venv_packages.h"
#include "jupyter/json.h"

namespace cella::executor {
namespace {

using jupyter::Json;

}  // namespace

bool SubprocessGuest::MayAddPackages() const {
  const bool listed = std::ranges::find(spec_.spaces, run::kPackagesSpace) != spec_.spaces.end();
  return listed && !context_.layers.empty();
}

std::string SubprocessGuest::RunnersSeen() const {
  return spec_.policy.jail ? confine::kRunnersInside : context_.runners;
}

// In front of the interpreter's own. The prelude does the same for modules.
void SubprocessGuest::AddPackagePrograms(confine::EnvVars* variables) const {
  const std::string link = std::filesystem::path(CallSocketPath()).parent_path() / ".cella-packages";
  variables->Set("PATH", fmt::format("{}/shims/bin:{}/bin:{}", RunnersSeen(), link, *variables->Find("PATH")));
}

// The virtual environment in which packages stay; empty: they are the session's.
std::string SubprocessGuest::PackageVenv() const {
  if (spec_.policy.jail) return "";
  const std::string venv = KeptVenv(context_, spec_.policy);
  return !venv.empty() && choice_.command.argv.front().starts_with(venv + "/") ? venv : "";
}

std::optional<Result<run::GuestPython>> SubprocessGuest::python() const {
  if (!python_.base.empty()) return run::GuestPython{"", python_.base, python_.sites};
  // A kernelspec with an interpreter of its own.
  const std::string& program = choice_.command.argv.front();
  if (choice_.python.empty() && program.starts_with('/')) return run::GuestPython{"", program, {}};
  return run::GuestPython{};
}

async::Task<Result<std::string>> SubprocessGuest::Use(std::string directory) {
  const std::string layer = directory.empty() ? "" : fmt::format("{}/{}", context_.layers, directory);
  const std::string venv = PackageVenv();
  if (!venv.empty()) {
    if (layer == venv_layer_) co_return std::string();
    CO_TRY_VOID(CheckWritable(context_, spec_.policy));
    auto change = [this, &venv, &layer]() -> Status {
      if (!venv_names_) venv_names_ = PackageNamesOf(venv);
      return ChangePackages({.venv = venv, .before = venv_layer_, .after = layer, .own = *venv_names_});
    };
    auto changed = co_await context_.planning->Run(change);
    if (!changed) co_return std::unexpected(std::move(changed.error()));
    venv_layer_ = layer;
    packages_changed_ = true;
    co_return std::string();
  }
  if (!directory.empty() && spec_.policy.jail) directory = fmt::format("{}/{}", confine::kLayersInside, directory);
  if (!directory.empty() && !spec_.policy.jail) directory = layer;
  packages_changed_ = packages_changed_ || packages_ != directory;
  packages_ = std::move(directory);
  co_return packages_;
}

std::string SubprocessGuest::PackagesCode() const {
  return fmt::format(kPackagesPrelude, jupyter::Dump(Json(RunnersSeen() + "/python")),
                     packages_.empty() ? "None" : jupyter::Dump(Json(packages_)));
}

// Between runs, and also if the code itself made the change: a process of its own may have made it.
async::Task<Status> SubprocessGuest::ShowPackages() {
  if (!std::exchange(packages_changed_, false)) co_return Status{};
  auto shown = co_await RunQuietly(PackagesCode(), async::Clock::now() + spec_.policy.startup_timeout);
  co_return shown;
}

}  // namespace cella::executor
