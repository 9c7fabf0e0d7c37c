// What each client uses of the server at the moment, against what it may. Counts only; the time is passed in, from a
// steady clock, so that a change of the wall clock neither opens nor closes anything. Lives on the loop; outlives the
// shares that it gives out.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "server/api_error.h"
#include "server/config.h"

namespace cella::server {

class Quota {
  struct Client;

 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // Something of a client's quota, given back when it goes away. Move-only.
  class Share {
   public:
    Share() = default;
    Share(Share&& other) noexcept { *this = std::move(other); }
    Share& operator=(Share&& other) noexcept;
    ~Share() { GiveBack(); }
    void GiveBack();

   private:
    friend class Quota;
    struct Part {
      uint64_t sessions = 0, runs = 0, memory = 0, builds = 0;
    };
    Share(Client* client, Part part) : client_(client), part_(part) {}

    Client* client_ = nullptr;
    Part part_;
  };

  // `limits` answers for every client, also for those that come later; a changed answer holds from then on.
  explicit Quota(std::function<QuotaLimits(std::string_view client)> limits) : limits_(std::move(limits)) {}
  Quota(const Quota&) = delete;
  Quota& operator=(const Quota&) = delete;

  // One request; 429 with the time until the next is let in.
  Answer<void> TakeRequest(std::string_view client, TimePoint now);
  Answer<Share> TakeSession(std::string_view client, uint64_t memory);
  Answer<Share> TakeRun(std::string_view client);
  Answer<Share> TakeBuild(std::string_view client);

  struct Use {
    uint64_t sessions = 0, runs = 0, memory = 0, builds = 0;
    bool operator==(const Use&) const = default;
  };
  Use UseOf(std::string_view client) const;

 private:
  struct Client {
    Use use;
    double requests = 0;  // that may come now
    TimePoint filled;
    bool seen = false;
  };

  Client& Of(std::string_view client);

  std::function<QuotaLimits(std::string_view)> limits_;
  // Names come from the token file, so that there are only so many. A map: shares point into it.
  std::map<std::string, Client, std::less<>> clients_;
};

}  // namespace cella::server
