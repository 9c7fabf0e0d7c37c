// Packages without a wheel: their source is fetched as data, built in a jail that has neither network nor cache nor
// anything of the caller's, and the wheel is checked as data before an installer sees it.
#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "installer/builder.h"

namespace cella::installer {
namespace {

using environment::BasePython;
using environment::Ready;
using environment::Request;
using Json = nlohmann::ordered_json;

constexpr size_t kKeyDigits = 16;  // of the Python and machine

// What a jail gets to see, or writes to, below the staging directory.
Result<std::string> MakePlace(const environment::Store::Staging& staging, const char* name) {
  std::string path = staging.path + "/" + name;
  if (::mkdir(path.c_str(), 0700) < 0 || ::chmod(path.c_str(), 0755) < 0) return SysErr(errno, "create '{}'", path);
  return path;
}

}  // namespace

async::Task<Result<Ready>> Builder::BuildRequirements(const BasePython& python, const std::vector<std::string>& texts,
                                                      const std::string& package, Progress progress,
                                                      run::StopToken stop, Chain chain) {
  const std::string context = fmt::format("the build of {}", package);
  Request request;
  request.python = python;
  request.index = settings_.index.Identity();
  auto packages = environment::ParseRequirements(texts);
  if (!packages) co_return std::unexpected(std::move(packages.error()).WithContext(context));
  request.packages = std::move(*packages);
  // It would wait for itself.
  for (const auto& needed : request.packages) {
    if (std::ranges::find(chain, needed.name) == chain.end()) continue;
    co_return Err(ErrorCode::kInvalid, "{} needs {}, whose own build needs it", context, needed.name);
  }
  auto ready = co_await BuildAt(std::move(request), std::move(progress), stop, std::move(chain));
  if (!ready) co_return std::unexpected(std::move(ready.error()).WithContext(context));
  co_return ready;
}

async::Task<Result<std::string>> Builder::BuildSource(const BasePython& python, const Source& source, Progress progress,
                                                      run::StopToken stop, Chain chain) {
  chain.push_back(environment::NormalizeName(source.name));
  CO_TRY(const auto staging, store_.MakeStaging());
  const environment::StagingGuard guard(staging);
  CO_TRY(const std::string fetched_place, MakePlace(staging, "source"));
  CO_TRY(const std::string built_place, MakePlace(staging, "built"));
  CO_TRY(const std::string taken_place, MakePlace(staging, "taken"));

  const Json fetch = {
      {"op", "fetch"}, {"name", source.name}, {"specifiers", source.specifiers}, {"place", fetched_place}};
  auto fetched = co_await Perform(
      jail_,
      {python, fetch, true, settings_.index.ForUv(), fetched_place, settings_.index.Paths(), InstallerScript::kSources},
      progress, stop);
  if (!fetched) co_return std::unexpected(std::move(fetched.error()));
  const std::string version = fetched->value("version", ""), sum = fetched->value("sha256", "");
  const std::string package = source.name + " " + version;
  const std::string key = sum + "-" + ContentKey(python, "").substr(0, kKeyDigits);
  if (store_.FindBuilt(key)) co_return key;
  auto held = co_await Lock("built-" + key, stop);
  if (!held) co_return std::unexpected(std::move(held.error()));
  if (store_.FindBuilt(key)) co_return key;

  auto needed = (*fetched)["requires"].get<std::vector<std::string>>();
  SourceBuildJob job{.package = package,
                     .venv = {},
                     .source = fetched_place,
                     .file = fetched->value("file", ""),
                     .backend = fetched->value("backend", ""),
                     .paths = (*fetched)["paths"].get<std::vector<std::string>>(),
                     .place = built_place};
  // The backend may name more requirements once it runs.
  for (bool again = false;; again = true) {
    auto ready = co_await BuildRequirements(python, needed, package, progress, stop, chain);
    if (!ready) co_return std::unexpected(std::move(ready.error()));
    if (progress) progress(fmt::format("Building {}", package));
    job.venv = ready->venv;
    auto built = co_await RunSourceBuild(jail_, job, progress, stop);
    if (!built) co_return std::unexpected(std::move(built.error()));
    if (built->requires_more.empty()) break;
    if (again) co_return Err(ErrorCode::kInvalid, "{} cannot be built: it asks for more packages each time", package);
    needed.insert(needed.end(), built->requires_more.begin(), built->requires_more.end());
  }

  const Json take = {
      {"op", "take"}, {"name", source.name}, {"version", version}, {"built", built_place}, {"place", taken_place}};
  auto taken = co_await Perform(jail_, {python, take, false, {}, taken_place, {built_place}, InstallerScript::kSources},
                                progress, stop);
  if (!taken) co_return std::unexpected(std::move(taken.error()));
  auto publish = [&] { return store_.PublishBuilt(taken_place, key); };
  auto published = co_await pool_.Run(publish);
  if (!published) co_return std::unexpected(std::move(published.error()));
  co_return key;
}

}  // namespace cella::installer
