// An exchange that keeps in mind how it was answered, counts it, and adds headers to the answer: those that let pages
// of allowed origins read it. Everything else is the exchange below.
#pragma once

#include <string>
#include <vector>

#include "http/exchange.h"
#include "server/host_check.h"
#include "server/metrics.h"

namespace cella::server {

class ObservedExchange : public http::Exchange {
 public:
  // All of it outlives this.
  ObservedExchange(http::Exchange& below, const Headers& extra, Metrics& metrics)
      : below_(below), extra_(extra), metrics_(metrics) {}

  const http::Request& request() const override { return below_.request(); }
  const http::Peer& peer() const override { return below_.peer(); }
  async::Task<Result<std::string>> ReadBody(uint64_t limit) override { return below_.ReadBody(limit); }
  async::Task<Result<std::string_view>> ReadSome() override { return below_.ReadSome(); }
  async::Task<Status> Send(int status, http::Headers headers, std::string_view body) override;
  async::Task<Status> Begin(int status, http::Headers headers) override;
  async::Task<Status> Write(std::string_view bytes) override { return below_.Write(bytes); }
  async::Task<Status> End() override { return below_.End(); }
  void Abort() override { below_.Abort(); }
  bool is_answered() const override { return below_.is_answered(); }
  bool is_connected() override { return below_.is_connected(); }
  async::Task<bool> Disconnected() override { return below_.Disconnected(); }
  async::Task<Result<std::unique_ptr<http::WebSocket>>> UpgradeToWebSocket(http::WebSocketOptions options) override {
    return below_.UpgradeToWebSocket(std::move(options));
  }

  // What it was answered with; 0: not at all.
  int status() const { return status_; }
  // The words of a failure of ours.
  const std::string& failure() const { return failure_; }

 private:
  void Observe(int status, std::string_view body);
  std::vector<http::Header> With(http::Headers headers) const;

  http::Exchange& below_;
  const Headers& extra_;
  Metrics& metrics_;
  int status_ = 0;
  std::string failure_;
};

}  // namespace cella::server
