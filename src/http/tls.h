// TLS settings of a listener or a client: 1.2 and later, the library's own choice of ciphers. OpenSSL's types stay in
// the .cc files. A value that is shared cheaply.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"

struct ssl_ctx_st;
struct ssl_st;

namespace cella::http {

struct TlsFiles {
  std::string certificate;  // PEM: the certificate, then its chain
  std::string key;          // PEM, without a passphrase
};

class Tls {
 public:
  static Result<Tls> ForServer(const TlsFiles& files);
  // Trusts what `ca_file` holds, or the system's authorities when it is empty. Shows `own` to a server that asks for a
  // certificate; empty paths: none.
  static Result<Tls> ForClient(const std::string& ca_file, const TlsFiles& own = {});

  ssl_ctx_st* context() const { return context_.get(); }

 private:
  explicit Tls(std::shared_ptr<ssl_ctx_st> context) : context_(std::move(context)) {}

  std::shared_ptr<ssl_ctx_st> context_;
};

// One connection's state over a non-blocking socket that it borrows. Calls never wait; kWantsRead and kWantsWrite tell
// what the socket must be waited for before the same call is made again. Internal to http.
class TlsSession {
 public:
  enum class Outcome { kDone, kWantsRead, kWantsWrite, kEnd };
  struct Step {
    Outcome outcome;
    size_t bytes = 0;
  };

  static Result<TlsSession> Accept(const Tls& tls, int fd);
  static Result<TlsSession> Connect(const Tls& tls, int fd, const std::string& host);

  Result<Step> Handshake();
  Result<Step> Read(char* data, size_t size);
  Result<Step> Write(const char* data, size_t size);
  // Sends the close notification, if that is possible without waiting.
  void SendEnd();

 private:
  struct Free {
    void operator()(ssl_st* session) const;
  };
  explicit TlsSession(ssl_st* session) : session_(session) {}
  static Result<TlsSession> Make(const Tls& tls, int fd);
  Result<Step> Judge(int returned, const char* what);

  std::unique_ptr<ssl_st, Free> session_;
};

}  // namespace cella::http
