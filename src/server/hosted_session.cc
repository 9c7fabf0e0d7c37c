#include "server/hosted_session.h"

#include <fmt/chrono.h>

#include <nlohmann/json.hpp>

#include "async/caught.h"
#include "registry/registry.h"
#include "session/json_value.h"

namespace cella::server {
namespace {

using Json = nlohmann::ordered_json;

// Ended runs that are kept at hand; their events and results are small.
constexpr size_t kRunsAtHand = 32;

std::string At(std::chrono::system_clock::time_point time) {
  return fmt::format("{:%FT%TZ}", std::chrono::floor<std::chrono::milliseconds>(time));
}

}  // namespace

HostedSession::HostedSession(Hub& hub, SessionSpec spec, std::string owner, Quota::Share share,
                             std::unique_ptr<session::Session> session,
                             std::shared_ptr<installer::SessionPackages> packages, std::shared_ptr<SessionTools> tools,
                             EnvironmentLease environment, std::shared_ptr<storage::SessionStorage> storage)
    : hub_(hub),
      spec_(std::move(spec)),
      owner_(std::move(owner)),
      share_(std::move(share)),
      session_(std::move(session)),
      packages_(std::move(packages)),
      tools_(std::move(tools)),
      environment_(std::move(environment)),
      storage_(std::move(storage)),
      tasks_(hub.loop),
      gone_(hub.loop) {
  packages_->Attach([this](std::string directory) { return session_->UsePackages(std::move(directory)); },
                    [this] { return session_->DescribePython(); });
  if (storage_) storage_->workspace = [this] { return session_->workspace(); };
  if (tools_) tools_->Attach([this] { return session_->current() ? session_->current()->id() : std::string(); });
}

std::string_view HostedSession::status() const {
  if (lost_) return "lost";
  if (!session_->is_open()) return "closed";
  return session_->is_busy() ? "running" : "idle";
}

Json HostedSession::Describe() const {
  Json labels = Json::object();
  for (const auto& [key, value] : spec_.labels) labels[key] = value;
  Json json;
  json["id"] = id();
  json["name"] = spec_.name.empty() ? Json(nullptr) : Json(spec_.name);
  json["labels"] = std::move(labels);
  json["executor"] = ToString(spec_.executor);
  json["status"] = status();
  if (!spec_.environment.name.empty()) json["environment"] = spec_.environment.name;
  auto capabilities = session_->Capabilities();
  if (!packages_->allows_changes()) std::erase_if(capabilities, [](auto word) { return word.starts_with("deps_"); });
  json["capabilities"] = std::move(capabilities);
  json["created_at"] = At(created_);
  json["expires_at"] = At(created_ + std::chrono::duration_cast<std::chrono::seconds>(spec_.max_lifetime));
  json["isolation"] = session::JsonOf(session_->isolation());
  return json;
}

std::shared_ptr<HostedRun> HostedSession::FindRun(std::string_view id) const {
  auto found = runs_.find(id);
  if (found != runs_.end()) return found->second->is_discarded() ? nullptr : found->second;
  auto expected = expected_.find(id);
  return expected == expected_.end() ? nullptr : expected->second;
}

std::shared_ptr<HostedRun> HostedSession::current() const {
  const auto& run = session_->current();
  return run ? FindRun(run->id()) : nullptr;
}

void HostedSession::Keep(const std::shared_ptr<HostedRun>& run) {
  runs_[run->id()] = run;
  order_.push_back(run->id());
}

void HostedSession::Announce(const std::shared_ptr<HostedRun>& run) {
  // A listener may unlisten while it is called.
  for (auto listeners = listeners_; const auto& [key, listener] : listeners) listener(run);
}

void HostedSession::NoteEnd(const RunResult& result) {
  if (result.state == StateAfter::kLost && result.outcome.status == RunStatus::kRejected) lost_ = true;
}

// The oldest that have ended; the registry has them.
void HostedSession::ForgetOldRuns() {
  while (order_.size() > kRunsAtHand) {
    auto oldest = runs_.find(order_.front());
    if (oldest != runs_.end() && oldest->second->phase() != HostedRun::Phase::kEnded) return;
    if (oldest != runs_.end()) {
      oldest->second->Discard();
      runs_.erase(oldest);
    }
    order_.pop_front();
  }
}

uint64_t HostedSession::Listen(Listener listener) {
  listeners_.emplace(++last_listener_, std::move(listener));
  return last_listener_;
}

Status HostedSession::Reply(std::optional<std::string> text) {
  const auto& run = session_->current();
  if (!run) return Err(ErrorCode::kInvalid, "nothing waits for input");
  return run->Reply(std::move(text));
}

void HostedSession::Stop(std::string because) { session_->Stop(std::move(because)); }

async::Task<void> HostedSession::Finish() {
  packages_->Stop();
  (void)co_await async::Caught(session_->Close());
  if (storage_) storage_->workspace = nullptr;
  co_await packages_->Close();
  hub_.registry.Hasten();  // our last runs wait there for company
  (void)co_await async::Caught(tasks_.Join());
  for (const auto& [id, run] : runs_) run->Discard();
  const auto status = lost_ ? registry::SessionStatus::kLost : registry::SessionStatus::kClosed;
  ended_ = co_await hub_.registry.SessionEnded(id(), status, session_->closed_because());
  share_.GiveBack();
}

}  // namespace cella::server
