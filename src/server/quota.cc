#include "server/quota.h"

#include <algorithm>
#include <cmath>

#include "base/units.h"

namespace cella::server {
namespace {

using namespace std::chrono_literals;

// When a session or a run will end is unknown; these are guesses.
constexpr std::chrono::nanoseconds kRetrySession = 5s;
constexpr std::chrono::nanoseconds kRetryRun = 1s;

}  // namespace

Quota::Share& Quota::Share::operator=(Share&& other) noexcept {
  if (this == &other) return *this;
  GiveBack();
  client_ = std::exchange(other.client_, nullptr);
  part_ = other.part_;
  return *this;
}

void Quota::Share::GiveBack() {
  if (client_ == nullptr) return;
  client_->use.sessions -= part_.sessions;
  client_->use.runs -= part_.runs;
  client_->use.memory -= part_.memory;
  client_->use.builds -= part_.builds;
  client_ = nullptr;
}

Quota::Client& Quota::Of(std::string_view client) {
  auto found = clients_.find(client);
  if (found == clients_.end()) found = clients_.emplace(client, Client{}).first;
  return found->second;
}

Answer<void> Quota::TakeRequest(std::string_view client, TimePoint now) {
  QuotaLimits limits = limits_(client);
  if (!limits.requests_per_second) return {};
  double rate = *limits.requests_per_second;
  double burst = limits.burst ? static_cast<double>(*limits.burst) : std::max(1.0, std::ceil(rate));
  Client& state = Of(client);
  if (!state.seen) {
    state.requests = burst;
    state.filled = now;
    state.seen = true;
  }
  // Clamp: callers may pass a time older than the last one.
  if (now > state.filled) {
    double seconds = std::chrono::duration<double>(now - state.filled).count();
    state.requests += seconds * rate;
    state.filled = now;
  }
  state.requests = std::min(state.requests, burst);
  if (state.requests >= 1) {
    state.requests -= 1;
    return {};
  }
  // Rounded up: a client that waits exactly so long is let in.
  double wait = std::ceil((1 - state.requests) / rate * 1e6) * 1e3;
  return TooMany(fmt::format("more than {} requests per second", rate),
                 std::chrono::nanoseconds(static_cast<int64_t>(wait)));
}

Answer<Quota::Share> Quota::TakeSession(std::string_view client, uint64_t memory) {
  QuotaLimits limits = limits_(client);
  Client& state = Of(client);
  if (limits.sessions && state.use.sessions >= *limits.sessions) {
    return TooMany(fmt::format("{} sessions at once, and no more, are yours: end one", *limits.sessions),
                   kRetrySession);
  }
  if (limits.memory && (memory > *limits.memory || state.use.memory > *limits.memory - memory)) {
    return TooMany(
        fmt::format("the memory limits of your sessions may add up to {}, of which {} are taken: end one, or "
                    "ask for less",
                    FormatByteSize(*limits.memory), FormatByteSize(state.use.memory)),
        kRetrySession);
  }
  state.use.sessions += 1;
  state.use.memory += memory;
  return Share(&state, {.sessions = 1, .memory = memory});
}

Answer<Quota::Share> Quota::TakeRun(std::string_view client) {
  QuotaLimits limits = limits_(client);
  Client& state = Of(client);
  if (limits.concurrent_runs && state.use.runs >= *limits.concurrent_runs) {
    return TooMany(fmt::format("{} runs at once, and no more, are yours", *limits.concurrent_runs), kRetryRun);
  }
  state.use.runs += 1;
  return Share(&state, {.runs = 1});
}

Answer<Quota::Share> Quota::TakeBuild(std::string_view client) {
  QuotaLimits limits = limits_(client);
  Client& state = Of(client);
  if (limits.builds && state.use.builds >= *limits.builds) {
    return TooMany(fmt::format("{} installations at once, and no more, are yours", *limits.builds), kRetrySession);
  }
  state.use.builds += 1;
  return Share(&state, {.builds = 1});
}

Quota::Use Quota::UseOf(std::string_view client) const {
  auto found = clients_.find(client);
  return found == clients_.end() ? Use{} : found->second.use;
}

}  // namespace cella::server
