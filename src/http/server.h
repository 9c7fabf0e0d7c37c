// The HTTP/1.1 server: accepts connections and calls one Handler for every request. It knows no routes. Everything runs
// on the loop's thread. Drain (or StopAccepting and Join) before it goes away.
#pragma once

#include <memory>

#include "async/task.h"
#include "base/unique_fd.h"
#include "http/exchange.h"
#include "http/limits.h"
#include "http/listener.h"

namespace cella::http {

class Server {
 public:
  // The loop and the handler outlive the server.
  Server(async::Loop& loop, Handler& handler, const Limits& limits);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Accepts from this one as well.
  void Start(Listener listener);
  // Serves a socket that is connected already.
  void Serve(UniqueFd connection);

  // Closes the listeners; what is connected goes on. New clients are refused by the kernel once the loop has run.
  void StopAccepting();
  // StopAccepting, closes idle connections, lets requests that are on end, each as the last of its connection; at the
  // deadline breaks off what is left. Nothing is connected when it returns.
  async::Task<void> Drain(async::TimePoint deadline);
  // Waits until everything has ended, which it does after StopAccepting when the last client left.
  async::Task<void> Join();

  size_t connections() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cella::http
