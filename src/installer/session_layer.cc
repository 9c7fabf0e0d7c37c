#include "installer/session_layer.h"

#include <algorithm>

#include "base/scope_exit.h"
#include "base/units.h"

namespace cella::installer {
namespace {

using environment::Package;
using environment::Requirement;

constexpr size_t kMaxWaiting = 16;
constexpr size_t kKeptGenerations = 16;

Error TooManyChanges() {
  return {ErrorCode::kExhausted, fmt::format("{} changes of this session's packages wait already", kMaxWaiting), 0};
}

// "six==1.17.0 --hash=…" → six, 1.17.0
Package PackageOf(std::string_view line) {
  const size_t sign = line.find("==");
  const std::string_view version = line.substr(sign + 2);
  return {environment::NormalizeName(line.substr(0, sign)), std::string(version.substr(0, version.find(' ')))};
}

std::vector<std::string> Lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (text.substr(0, end).contains("==")) lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

const Package* Find(const std::vector<Package>& packages, const std::string& name) {
  auto found = std::ranges::find(packages, name, &Package::name);
  return found == packages.end() ? nullptr : &*found;
}

// A later requirement of a name takes the place of an earlier one.
std::vector<Requirement> Merge(const std::vector<Requirement>& before, const std::vector<Requirement>& more) {
  std::vector<Requirement> merged = more;
  for (const Requirement& old : before) {
    if (std::ranges::find(more, old.name, &Requirement::name) == more.end()) merged.push_back(old);
  }
  std::ranges::sort(merged);
  return merged;
}

}  // namespace

std::vector<std::string> SessionLayer::List() const {
  std::vector<std::string> texts;
  for (const Requirement& wanted : wanted_) texts.push_back(wanted.text);
  return texts;
}

async::Task<Result<DepsChange>> SessionLayer::Add(std::vector<std::string> specs, Progress progress,
                                                  run::StopToken stop) {
  if (specs.empty()) co_return Err(ErrorCode::kInvalid, "no package was named");
  CO_TRY(std::vector<Requirement> more, environment::ParseRequirements(specs));
  if (turn_.waiting() >= kMaxWaiting) co_return std::unexpected(TooManyChanges());
  const auto pass = co_await turn_.EnterOr(stop.Ending());
  if (!pass) co_return Err(ErrorCode::kClosed, "the change was stopped before it began");
  auto changed = co_await Change(Merge(wanted_, more), std::move(progress), stop);
  co_return changed;
}

async::Task<Result<bool>> SessionLayer::Remove(std::string name, Progress progress, run::StopToken stop) {
  if (turn_.waiting() >= kMaxWaiting) co_return std::unexpected(TooManyChanges());
  const auto pass = co_await turn_.EnterOr(stop.Ending());
  if (!pass) co_return Err(ErrorCode::kClosed, "the change was stopped before it began");
  std::vector<Requirement> wanted = wanted_;
  if (std::erase_if(wanted, [&](const auto& one) { return one.name == environment::NormalizeName(name); }) == 0) {
    co_return false;
  }
  auto changed = co_await Change(std::move(wanted), std::move(progress), stop);
  if (!changed) co_return std::unexpected(std::move(changed.error()));
  co_return true;
}

async::Task<Result<DepsChange>> SessionLayer::Sync(Progress progress, run::StopToken stop) {
  if (turn_.waiting() >= kMaxWaiting) co_return std::unexpected(TooManyChanges());
  const auto pass = co_await turn_.EnterOr(stop.Ending());
  if (!pass) co_return Err(ErrorCode::kClosed, "the change was stopped before it began");
  auto changed = co_await Change(Merge(wanted_, configured_), std::move(progress), stop);
  co_return changed;
}

async::Task<Result<DepsChange>> SessionLayer::Change(std::vector<Requirement> wanted, Progress progress,
                                                     run::StopToken stop) {
  if (wanted == wanted_) co_return DepsChange{};
  changing_ = true;
  const ScopeExit changed([this] { changing_ = false; });
  if (wanted.size() > environment::kMaxSpecs) {
    co_return Err(ErrorCode::kInvalid, "a session has at most {} packages of its own", environment::kMaxSpecs);
  }
  std::string lock;
  if (!wanted.empty()) {
    std::vector<std::string> preferred = lock_;
    for (const Package& package : base_.packages) {
      const bool in_layer = Find(installed_, package.name) != nullptr;
      if (!in_layer) preferred.push_back(package.name + "==" + package.version);
    }
    environment::Request request{base_.python, wanted, {}, {}, ""};
    auto resolved = co_await builder_.Resolve(std::move(request), std::move(preferred), progress, stop);
    if (!resolved) co_return std::unexpected(std::move(resolved.error()));
    lock = std::move(*resolved);
  }
  DepsChange change;
  std::vector<Package> installed;
  std::vector<std::string> pins;
  std::string wheels;
  for (const std::string& line : Lines(lock)) {
    Package package = PackageOf(line);
    const Package* base = Find(base_.packages, package.name);
    if (base != nullptr && base->version == package.version) continue;
    if (base != nullptr) change.needs_restart.push_back(package.name);
    const Package* old = Find(installed_, package.name);
    if (old == nullptr || old->version != package.version) change.added.push_back(package);
    pins.push_back(package.name + "==" + package.version);
    installed.push_back(std::move(package));
    wheels += line + "\n";
  }
  for (const Package& old : installed_) {
    if (Find(installed, old.name) == nullptr) change.removed.push_back(old.name);
  }
  std::string directory;
  if (!wheels.empty()) {
    CO_TRY_VOID(builder_.rules().CheckLock(wheels));
    if (!layer_) {
      CO_TRY(layer_, builder_.store().MakeLayer());
    }
    const uint64_t number = ++generation_;
    auto built = co_await builder_.BuildLayer(base_.python, wheels, *layer_, number, progress, stop);
    if (!built) co_return std::unexpected(std::move(built.error()));
    if (built->bytes > disk_limit_) {
      co_await builder_.RemoveGeneration(built->directory);
      co_return Err(ErrorCode::kExhausted, "the packages take {}, and the session's disk limit is {}: raise the limit",
                    FormatByteSize(built->bytes), FormatByteSize(disk_limit_));
    }
    directory = std::move(built->directory);
    kept_.push_back({directory, built->bytes});
  }
  if (stop.ending()) co_return Err(ErrorCode::kClosed, "the change was stopped");
  auto used = co_await use_(std::move(directory));
  CO_TRY(shown_, std::move(used));
  wanted_ = std::move(wanted);
  installed_ = std::move(installed);
  lock_ = std::move(pins);
  co_await DropOldGenerations();
  co_return change;
}

async::Task<void> SessionLayer::DropOldGenerations() {
  // Generations for another interpreter are copies; those for this machine's share their files with the cache.
  const bool copies = !base_.python.for_version.empty();
  uint64_t bytes = 0;
  for (const Generation& each : kept_) bytes += copies ? each.bytes : 0;
  while (kept_.size() > 1 && (kept_.size() > kKeptGenerations || bytes > disk_limit_)) {
    const Generation oldest = std::move(kept_.front());
    kept_.pop_front();
    bytes -= copies ? oldest.bytes : 0;
    co_await builder_.RemoveGeneration(oldest.directory);
  }
}

async::Task<void> SessionLayer::Close() {
  if (layer_) co_await builder_.RemoveLayer(std::move(*layer_));
  layer_.reset();
}

}  // namespace cella::installer
