#include "server/observed_exchange.h"

namespace cella::server {

void ObservedExchange::Observe(int status, std::string_view body) {
  status_ = status;
  metrics_.Answered(status);
  if (status >= 500) failure_ = body;
}

std::vector<http::Header> ObservedExchange::With(http::Headers headers) const {
  std::vector<http::Header> all(headers.begin(), headers.end());
  for (const auto& [name, value] : extra_) all.push_back({name, value});
  return all;
}

async::Task<Status> ObservedExchange::Send(int status, http::Headers headers, std::string_view body) {
  Observe(status, body);
  if (extra_.empty()) co_return co_await below_.Send(status, headers, body);
  const std::vector<http::Header> all = With(headers);
  co_return co_await below_.Send(status, all, body);
}

async::Task<Status> ObservedExchange::Begin(int status, http::Headers headers) {
  Observe(status, {});
  if (extra_.empty()) co_return co_await below_.Begin(status, headers);
  const std::vector<http::Header> all = With(headers);
  co_return co_await below_.Begin(status, all);
}

}  // namespace cella::server
