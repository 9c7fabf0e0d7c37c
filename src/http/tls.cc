#include "http/tls.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <unistd.h>

#include <climits>

namespace cella::http {
namespace {

// OpenSSL keeps a queue of errors per thread; what we do not take would be found by the next call.
std::string TakeErrors() {
  std::string text;
  while (unsigned long code = ERR_get_error()) {
    const char* reason = ERR_reason_error_string(code);
    if (!text.empty()) text += ", ";
    text += reason != nullptr ? reason : "unknown";
  }
  return text.empty() ? "unknown reason" : text;
}

int FdOf(BIO* bio) { return static_cast<int>(reinterpret_cast<intptr_t>(BIO_get_data(bio))); }

// OpenSSL's own socket BIO uses write(), and a peer that left would end the program by SIGPIPE.
int WriteBytes(BIO* bio, const char* data, int size) {
  BIO_clear_retry_flags(bio);
  ssize_t n = send(FdOf(bio), data, static_cast<size_t>(size), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
  return static_cast<int>(n);
}

int ReadBytes(BIO* bio, char* data, int size) {
  BIO_clear_retry_flags(bio);
  ssize_t n = recv(FdOf(bio), data, static_cast<size_t>(size), MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
  if (n == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  return static_cast<int>(n);
}

long Control(BIO* bio, int command, long, void*) {
  if (command == BIO_CTRL_EOF) return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

const BIO_METHOD* SocketMethod() {
  static const BIO_METHOD* const kMethod = [] {
    BIO_METHOD* method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "cella socket");
    BIO_meth_set_write(method, WriteBytes);
    BIO_meth_set_read(method, ReadBytes);
    BIO_meth_set_ctrl(method, Control);
    return method;
  }();
  return kMethod;
}

std::shared_ptr<SSL_CTX> MakeContext(const SSL_METHOD* method) {
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(method), SSL_CTX_free);
  if (!context) return nullptr;
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
  // Idle connections hold no record buffers, and a write that is tried again may come from elsewhere.
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  return context;
}

Status CheckReadable(const std::string& path, const char* what) {
  if (access(path.c_str(), R_OK) < 0) return SysErr(errno, "read the TLS {} '{}'", what, path);
  return {};
}

// A key with a passphrase would ask on the terminal otherwise.
int NoPassphrase(char*, int, int, void*) { return 0; }

Status UseCertificate(SSL_CTX* context, const TlsFiles& files) {
  TRY_VOID(CheckReadable(files.certificate, "certificate"));
  TRY_VOID(CheckReadable(files.key, "key"));
  SSL_CTX_set_default_passwd_cb(context, NoPassphrase);
  if (SSL_CTX_use_certificate_chain_file(context, files.certificate.c_str()) != 1) {
    return Err(ErrorCode::kInvalid, "'{}' is not a certificate in PEM form: {}", files.certificate, TakeErrors());
  }
  if (SSL_CTX_use_PrivateKey_file(context, files.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    const unsigned long code = ERR_peek_error();
    const bool mismatch = ERR_GET_LIB(code) == ERR_LIB_X509 && (ERR_GET_REASON(code) == X509_R_KEY_VALUES_MISMATCH ||
                                                                ERR_GET_REASON(code) == X509_R_KEY_TYPE_MISMATCH);
    const std::string reason = TakeErrors();
    if (mismatch) {
      return Err(ErrorCode::kInvalid, "the key '{}' does not belong to the certificate '{}'", files.key,
                 files.certificate);
    }
    return Err(ErrorCode::kInvalid, "'{}' is not a private key in PEM form without a passphrase: {}", files.key,
               reason);
  }
  if (SSL_CTX_check_private_key(context) != 1) {
    (void)TakeErrors();
    return Err(ErrorCode::kInvalid, "the key '{}' does not belong to the certificate '{}'", files.key,
               files.certificate);
  }
  return {};
}

}  // namespace

Result<Tls> Tls::ForServer(const TlsFiles& files) {
  auto context = MakeContext(TLS_server_method());
  if (!context) return Err(ErrorCode::kInternal, "TLS: {}", TakeErrors());
  TRY_VOID(UseCertificate(context.get(), files));
  return Tls(std::move(context));
}

Result<Tls> Tls::ForClient(const std::string& ca_file, const TlsFiles& own) {
  auto context = MakeContext(TLS_client_method());
  if (!context) return Err(ErrorCode::kInternal, "TLS: {}", TakeErrors());
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  if (ca_file.empty()) {
    SSL_CTX_set_default_verify_paths(context.get());
  } else {
    TRY_VOID(CheckReadable(ca_file, "authority"));
    if (SSL_CTX_load_verify_locations(context.get(), ca_file.c_str(), nullptr) != 1) {
      return Err(ErrorCode::kInvalid, "'{}' holds no certificate in PEM form: {}", ca_file, TakeErrors());
    }
  }
  if (!own.certificate.empty()) TRY_VOID(UseCertificate(context.get(), own));
  return Tls(std::move(context));
}

void TlsSession::Free::operator()(ssl_st* session) const { SSL_free(session); }

Result<TlsSession> TlsSession::Make(const Tls& tls, int fd) {
  TlsSession session(SSL_new(tls.context()));
  BIO* bio = BIO_new(SocketMethod());
  if (!session.session_ || bio == nullptr) {
    BIO_free(bio);
    return Err(ErrorCode::kExhausted, "TLS: {}", TakeErrors());
  }
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<intptr_t>(fd)));
  BIO_set_init(bio, 1);
  SSL_set_bio(session.session_.get(), bio, bio);
  return session;
}

Result<TlsSession> TlsSession::Accept(const Tls& tls, int fd) {
  TRY(TlsSession session, Make(tls, fd));
  SSL_set_accept_state(session.session_.get());
  return session;
}

Result<TlsSession> TlsSession::Connect(const Tls& tls, int fd, const std::string& host) {
  TRY(TlsSession session, Make(tls, fd));
  SSL* ssl = session.session_.get();
  SSL_set_connect_state(ssl);
  unsigned char numeric[sizeof(in6_addr)];
  if (inet_pton(AF_INET, host.c_str(), numeric) == 1 || inet_pton(AF_INET6, host.c_str(), numeric) == 1) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str());
  } else {
    SSL_set_tlsext_host_name(ssl, host.c_str());
    SSL_set1_host(ssl, host.c_str());
  }
  return session;
}

Result<TlsSession::Step> TlsSession::Judge(int returned, const char* what) {
  if (returned > 0) return Step{Outcome::kDone, static_cast<size_t>(returned)};
  switch (SSL_get_error(session_.get(), returned)) {
    case SSL_ERROR_WANT_READ: return Step{Outcome::kWantsRead};
    case SSL_ERROR_WANT_WRITE: return Step{Outcome::kWantsWrite};
    case SSL_ERROR_ZERO_RETURN: return Step{Outcome::kEnd};
    default: break;
  }
  const long verified = SSL_get_verify_result(session_.get());
  std::string reason = TakeErrors();
  if (verified != X509_V_OK) reason = X509_verify_cert_error_string(verified);
  return Err(ErrorCode::kClosed, "TLS {}: {}", what, reason);
}

Result<TlsSession::Step> TlsSession::Handshake() {
  ERR_clear_error();
  return Judge(SSL_do_handshake(session_.get()), "handshake");
}

Result<TlsSession::Step> TlsSession::Read(char* data, size_t size) {
  ERR_clear_error();
  return Judge(SSL_read(session_.get(), data, static_cast<int>(std::min<size_t>(size, INT_MAX))), "read");
}

Result<TlsSession::Step> TlsSession::Write(const char* data, size_t size) {
  ERR_clear_error();
  return Judge(SSL_write(session_.get(), data, static_cast<int>(std::min<size_t>(size, INT_MAX))), "write");
}

void TlsSession::SendEnd() {
  ERR_clear_error();
  if (SSL_is_init_finished(session_.get()) != 0) (void)SSL_shutdown(session_.get());
  ERR_clear_error();
}

}  // namespace cella::http
