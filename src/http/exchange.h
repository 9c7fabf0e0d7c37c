// One request and its answer, as a handler sees them. Lives on the loop, for as long as Handle runs. An interface, so
// that routes can be tested without sockets.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "async/task.h"
#include "base/result.h"
#include "http/header.h"
#include "http/request.h"
#include "http/websocket.h"

namespace cella::http {

struct Peer {
  bool is_unix = false;
  uid_t uid = static_cast<uid_t>(-1);  // is_unix: whose process it was when it connected, as the kernel knows
  pid_t pid = 0;                       // is_unix: for logs only, it may have been taken by another process since
  // is_unix: the process lived in our own user and pid namespaces when its connection was accepted
  bool shares_namespaces = false;
  std::string address;  // "127.0.0.1:40312", "unix:uid=1000,pid=4711"
};

class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual const Request& request() const = 0;
  virtual const Peer& peer() const = 0;

  // The body. A client that waits for "100 Continue" gets it when the first of these is called, so refuse before.
  // Where they fail, they have answered (413, 400, 408) or the client is gone: just return.

  // All of it; 413 when it has more than `limit` bytes.
  virtual async::Task<Result<std::string>> ReadBody(uint64_t limit) = 0;
  // The next bytes, valid until the next call; empty at the end.
  virtual async::Task<Result<std::string_view>> ReadSome() = 0;

  // The answer: either Send, or Begin, any number of Writes, End. One call at a time; each waits until the socket took
  // the bytes, so a slow reader slows the handler down. kClosed: the client is gone, or took nothing for too long.
  // `headers` say neither length nor connection; but a Content-Length given to Begin is kept, and held against what is
  // written. `body` and `bytes` are borrowed until the call returns.

  virtual async::Task<Status> Send(int status, Headers headers, std::string_view body) = 0;
  virtual async::Task<Status> Begin(int status, Headers headers) = 0;
  virtual async::Task<Status> Write(std::string_view bytes) = 0;
  virtual async::Task<Status> End() = 0;

  // Breaks the connection off, so that the client cannot take what it has for the whole. A handler that returns
  // between Begin and End has the same effect; one that returns before any answer sends a 500.
  virtual void Abort() = 0;

  virtual bool is_answered() const = 0;  // Send or Begin was called

  // Whether the client is still there, as far as the kernel knows now. One that only ended its side of the connection
  // counts as gone, but can still be answered.
  virtual bool is_connected() = 0;
  // Waits until it is not; false when cancelled, so that it can be raced (async::FirstOf). Not while the body is read;
  // bytes that come in the meantime are kept for the next request.
  virtual async::Task<bool> Disconnected() = 0;

  // Answers 101 and hands over the connection, or refuses (400, 426) and returns why. Before anything else was answered
  // and for requests without a body.
  virtual async::Task<Result<std::unique_ptr<WebSocket>>> UpgradeToWebSocket(WebSocketOptions options) = 0;

  // {"error": {"code", "message", "hint"}}
  async::Task<Status> SendError(int status, std::string_view code, std::string_view message,
                                std::string_view hint = {});
  // A body of application/json.
  async::Task<Status> SendJson(int status, std::string_view json);
};

class Handler {
 public:
  virtual ~Handler() = default;

  // Called for one request after the other of a connection, and at once for many connections.
  virtual async::Task<void> Handle(Exchange& exchange) = 0;

  // Whether %2F may stand for a slash in this request's path: only where Target::Rest is what is read. Refused with
  // 400 otherwise, since a segment that holds a slash has fooled many routers.
  virtual bool AcceptsEscapedSlash(const Request& request) const;
};

}  // namespace cella::http
