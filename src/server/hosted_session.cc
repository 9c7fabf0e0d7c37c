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

HostedSession::HostedSession(Hub& hub, SessionParts parts)
    : hub_(hub), parts_(std::move(parts)), tasks_(hub.loop), gone_(hub.loop) {
  parts_.packages->Attach([this](std::string directory) { return parts_.session->UsePackages(std::move(directory)); },
                          [this] { return parts_.session->DescribePython(); });
  if (parts_.storage) parts_.storage->workspace = [this] { return parts_.session->workspace(); };
  parts_.tools->Attach([this] { return parts_.session->current() ? parts_.session->current()->id() : std::string(); });
}

std::string_view HostedSession::status() const {
  if (lost_) return "lost";
  if (!parts_.session->is_open()) return "closed";
  return parts_.session->is_busy() ? "running" : "idle";
}

Json HostedSession::Describe() const {
  Json labels = Json::object();
  for (const auto& [key, value] : parts_.spec.labels) labels[key] = value;
  Json json;
  json["id"] = id();
  json["name"] = parts_.spec.name.empty() ? Json(nullptr) : Json(parts_.spec.name);
  json["labels"] = std::move(labels);
  json["executor"] = ToString(parts_.spec.executor);
  json["status"] = status();
  if (!parts_.spec.environment.name.empty()) json["environment"] = parts_.spec.environment.name;
  auto capabilities = parts_.session->Capabilities();
  if (!parts_.packages->allows_changes()) {
    std::erase_if(capabilities, [](auto word) { return word.starts_with("deps_"); });
  }
  json["capabilities"] = std::move(capabilities);
  json["created_at"] = At(created_);
  json["expires_at"] = At(created_ + std::chrono::duration_cast<std::chrono::seconds>(parts_.spec.max_lifetime));
  json["isolation"] = session::JsonOf(parts_.session->isolation());
  return json;
}

std::shared_ptr<HostedRun> HostedSession::FindRun(std::string_view id) const {
  auto found = runs_.find(id);
  if (found != runs_.end()) return found->second->is_discarded() ? nullptr : found->second;
  auto expected = expected_.find(id);
  return expected == expected_.end() ? nullptr : expected->second;
}

void HostedSession::StopExpecting(const std::string& id, const HostedRun* run) {
  auto expected = expected_.find(id);
  if (expected != expected_.end() && expected->second.get() == run) expected_.erase(expected);
}

std::shared_ptr<HostedRun> HostedSession::current() const {
  const auto& run = parts_.session->current();
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

void HostedSession::Stop(std::string because) { parts_.session->Stop(std::move(because)); }

async::Task<void> HostedSession::Finish() {
  parts_.packages->Stop();
  (void)co_await async::Caught(parts_.session->Close());
  if (parts_.storage) parts_.storage->workspace = nullptr;
  co_await parts_.packages->Close();
  hub_.registry.Hasten();  // our last runs wait there for company
  (void)co_await async::Caught(tasks_.Join());
  for (const auto& [id, run] : runs_) run->Discard();
  const auto status = lost_ ? registry::SessionStatus::kLost : registry::SessionStatus::kClosed;
  ended_ = co_await hub_.registry.SessionEnded(id(), status, parts_.session->closed_because());
  parts_.share.GiveBack();
}

}  // namespace cella::server
