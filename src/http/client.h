// A small HTTP client: one connection at a time, kept for the next request. On the loop; one request at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "async/task.h"
#include "base/result.h"
#include "http/address.h"
#include "http/tls.h"

namespace cella::http {

// Where a server is: "unix:PATH", "http://HOST[:PORT][/PREFIX]" or "https://…".
struct Url {
  Address address;
  bool is_encrypted = false;
  std::string prefix;  // before every target; empty or "/…" without a slash at its end

  std::string ToString() const;
};
Result<Url> ParseUrl(std::string_view text);

using OwnedHeaders = std::vector<std::pair<std::string, std::string>>;

struct ClientRequest {
  std::string method = "GET";
  std::string target = "/";
  OwnedHeaders headers = {};
  std::string body = {};
};

struct ClientResponse {
  int status = 0;
  OwnedHeaders headers;
  std::string body;  // of Fetch

  std::optional<std::string_view> header(std::string_view name) const;
};

struct ClientOptions {
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds(10);  // with the TLS handshake
  std::chrono::nanoseconds silence = std::chrono::hours(24 * 365);      // how long the server may say nothing
  uint64_t max_body = uint64_t{64} << 20;                               // of Fetch, and of a line
  std::string ca_file = {};                                             // else the system's authorities
  TlsFiles certificate = {};                                            // the client's own; empty paths: none
  std::string remedy = "start one with 'cella serve'";                  // when no server answers there
};

// A connection after "101 Switching Protocols": bytes in both directions. One reader and one writer at a time, which
// may overlap. On the loop.
class UpgradedStream {
 public:
  virtual ~UpgradedStream() = default;
  // Bytes read; 0 at the end.
  virtual async::Task<Result<size_t>> Read(std::span<char> buffer) = 0;
  // All of it. kClosed: the peer is gone, or took no byte for `patience`.
  virtual async::Task<Status> Write(std::string_view bytes, std::chrono::nanoseconds patience) = 0;
  // Ends both directions and every wait.
  virtual void Kill() = 0;
};

class Client {
 public:
  // Connects with the first request. The loop outlives the client.
  Client(async::Loop& loop, Url url, ClientOptions options);
  Client(Client&&) noexcept;
  ~Client();

  // The whole answer. Any status is an answer; an Error means that there was none.
  async::Task<Result<ClientResponse>> Fetch(const ClientRequest& request);

  // The head of the answer; the rest by NextLine or NextBytes. What was not read of the answer before is given up.
  async::Task<Result<ClientResponse>> Start(const ClientRequest& request);
  // Without its line end; nothing at the end. kClosed when the server broke off: what came before is not the whole.
  async::Task<Result<std::optional<std::string>>> NextLine();
  // Some of what comes; empty at the end.
  async::Task<Result<std::string>> NextBytes();

  // Asks for another protocol on this connection, which then belongs to the stream. Any other answer than 101 is the
  // response, whole.
  struct Upgraded {
    ClientResponse response;
    std::unique_ptr<UpgradedStream> stream;
  };
  async::Task<Result<Upgraded>> Upgrade(const ClientRequest& request);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cella::http
