#include <filesystem>

#include "installer/base_python.h"
#include "installer/installed_packages.h"
#include "installer/session_packages.h"

namespace cella::installer {
namespace {

using namespace std::chrono_literals;
using environment::Ready;
using environment::Request;

// ipykernel need not be the newest.
constexpr int64_t kLockAge = 30 * 24 * 60 * 60;
constexpr int64_t kAnyAge = int64_t{1} << 40;
constexpr auto kPatience = 60s;

// As constraints.
void AddVersions(const std::vector<environment::Package>& packages, std::vector<std::string>* constraints) {
  for (const environment::Package& package : packages) {
    if (environment::IsPackageName(package.name) && environment::IsVersion(package.version)) {
      constraints->push_back(fmt::format("{}=={}", package.name, package.version));
    }
  }
}

std::optional<Ready> FindBuilt(const environment::Store& store, const Request& request, int64_t age) {
  auto lock = store.FindLock(RequestKey(request), age);
  return lock ? store.Find(ContentKey(request.python, *lock)) : std::nullopt;
}

executor::KernelEnvironment Used(Ready ready) {
  auto kept = std::make_shared<Ready>(std::move(ready));
  return {.venv = kept->venv, .lease = kept};
}

}  // namespace

Result<Request> PackageService::RequestOf(const executor::KernelPackages& packages) const {
  TRY(language::HostEnv host, AskingHost(settings_.state_dir));
  TRY(environment::IndexSettings index, OperatorIndex());
  Request request;
  TRY(request.python, ChooseBasePython(host, packages.python, "", settings_.of_the_user ? nullptr : &guests_));
  request.index = index.Identity();
  std::vector<std::string> texts = {"ipykernel", "pip"}, constraints;
  if (!packages.environment.empty()) {
    const std::string key = std::filesystem::path(packages.environment).parent_path().filename();
    const auto ready = store_->Find(key);
    if (!ready) return Err(ErrorCode::kNotFound, "the environment '{}' is gone", packages.environment);
    texts.insert(texts.end(), ready->manifest.requested.begin(), ready->manifest.requested.end());
    AddVersions(ready->manifest.packages, &constraints);
  }
  if (!packages.venv.empty()) {
    AddVersions(InstalledPackages(packages.venv, request.python.version), &constraints);
    // What is there already stays, whatever its version.
    std::erase_if(constraints, [](const std::string& each) { return each.starts_with("pip=="); });
  }
  TRY(request.packages, environment::ParseRequirements(texts, environment::kMaxFileSpecs));
  TRY(request.constraints, environment::ParseRequirements(constraints, environment::kMaxFileSpecs));
  return request;
}

async::Task<Result<executor::KernelEnvironment>> PackageService::Find(executor::KernelPackages packages,
                                                                      run::StopToken stop) {
  if (!store_) co_return std::unexpected(why_);
  std::optional<Ready> ready;
  auto look = [&]() -> Result<Request> {
    TRY(Request request, RequestOf(packages));
    ready = FindBuilt(*store_, request, kLockAge);
    return request;
  };
  auto request = co_await pool_.Run(look);
  if (!request) co_return std::unexpected(std::move(request.error()));
  if (ready) co_return Used(std::move(*ready));
  const std::string key = RequestKey(*request);
  if (unreachable_ && unreachable_key_ == key && async::Clock::now() < asks_again_at_)
    co_return std::unexpected(*unreachable_);
  auto builder = co_await StartBuilder();
  if (!builder) co_return std::unexpected(std::move(builder.error()));
  auto built = co_await (*builder)->BuildOurs(*request, nullptr, stop);
  if (built) co_return Used(std::move(*built));
  if (built.error().code == ErrorCode::kClosed) co_return std::unexpected(std::move(built.error()));
  auto look_again = [&]() -> Status {
    ready = FindBuilt(*store_, *request, kAnyAge);
    return {};
  };
  if (co_await pool_.Run(look_again); ready) co_return Used(std::move(*ready));
  unreachable_key_ = key;
  unreachable_ = built.error();
  asks_again_at_ = async::Clock::now() + kPatience;
  co_return std::unexpected(std::move(built.error()));
}

}  // namespace cella::installer
