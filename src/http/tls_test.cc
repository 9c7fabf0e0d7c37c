#include "http/tls.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <boost/asio/post.hpp>

#include "http/client.h"
#include "http/test_client.h"

namespace cella::http {
namespace {

using async::Task;
using testing::HasSubstr;

struct FileCloser {
  void operator()(FILE* file) const { (void)fclose(file); }
};
using File = std::unique_ptr<FILE, FileCloser>;

// A key and a certificate for 127.0.0.1 that it signed itself.
void MakeCertificate(const std::string& certificate_path, const std::string& key_path) {
  std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  std::unique_ptr<X509, void (*)(X509*)> certificate(X509_new(), X509_free);
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -60);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_set_pubkey(certificate.get(), key.get());
  X509_NAME* name = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("test"), -1, -1, 0);
  X509_set_issuer_name(certificate.get(), name);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "IP:127.0.0.1");
  X509_add_ext(certificate.get(), extension, -1);
  X509_EXTENSION_free(extension);
  X509_sign(certificate.get(), key.get(), EVP_sha256());
  PEM_write_X509(File(fopen(certificate_path.c_str(), "we")).get(), certificate.get());
  PEM_write_PrivateKey(File(fopen(key_path.c_str(), "we")).get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
}

class TlsTest : public testing::Test {
 protected:
  TlsTest() {
    MakeCertificate(files_.certificate, files_.key);
    MakeCertificate(directory_ / "other.pem", directory_ / "other.key");
  }

  TemporaryDirectory directory_;
  TlsFiles files_{directory_ / "cert.pem", directory_ / "key.pem"};
};

Task<void> Echo(Exchange& exchange) {
  auto body = co_await exchange.ReadBody(64 << 20);
  if (!body) co_return;
  Status status = co_await exchange.Begin(200, {});
  if (status) status = co_await exchange.Write(*body);
  if (status) (void)co_await exchange.End();
}

TEST_F(TlsTest, CarriesLargeBodiesBothWays) {
  TestServer server(Echo, {}, "127.0.0.1:0", {.tls = Tls::ForServer(files_).value()});
  async::Loop loop;
  Client client(loop, ParseUrl("https://" + server.address().ToString()).value(), {.ca_file = files_.certificate});
  auto main = [&]() -> Task<void> {
    for (size_t size : {5, 100000, 10000000}) {
      ClientRequest request{.method = "POST", .target = "/", .body = std::string(size, 'x')};
      auto response = co_await client.Fetch(request);
      EXPECT_TRUE(response) << response.error().message;
      if (!response) co_return;
      EXPECT_EQ(response->body, request.body);
    }
    EXPECT_EQ(server.connections(), 1u);
  };
  loop.Run(main());
}

TEST_F(TlsTest, ClientRejectsUnknownCertificate) {
  TestServer server(Echo, {}, "127.0.0.1:0", {.tls = Tls::ForServer(files_).value()});
  async::Loop loop;
  for (const std::string& authority : {std::string(), directory_ / "other.pem"}) {
    Client client(loop, ParseUrl("https://" + server.address().ToString()).value(), {.ca_file = authority});
    auto main = [&]() -> Task<void> {
      auto response = co_await client.Fetch({});
      EXPECT_FALSE(response);
      EXPECT_THAT(response.error().message, HasSubstr("self-signed certificate"));
    };
    loop.Run(main());
  }
}

TEST_F(TlsTest, ClientRejectsCertificateForAnotherName) {
  TestServer server(Echo, {}, "127.0.0.1:0", {.tls = Tls::ForServer(files_).value()});
  async::Loop loop;
  auto url = fmt::format("https://localhost:{}", server.address().port);
  Client client(loop, ParseUrl(url).value(), {.ca_file = files_.certificate});
  auto main = [&]() -> Task<void> {
    auto response = co_await client.Fetch({});
    EXPECT_FALSE(response);
    EXPECT_THAT(response.error().message, HasSubstr("ostname mismatch"));
  };
  loop.Run(main());
}

TEST_F(TlsTest, ClosesClientsThatDoNotHandshake) {
  TestServer server(Echo, {.header_time = 100ms}, "127.0.0.1:0", {.tls = Tls::ForServer(files_).value()});
  TestClient plain(server.address());
  plain.Say("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(plain.ReadToEnd().find("HTTP/1.1"), std::string::npos);
  TestClient silent(server.address());
  EXPECT_EQ(silent.ReadToEnd(), "");
  while (server.connections() > 0) std::this_thread::yield();
}

TEST_F(TlsTest, RejectsOldVersions) {
  TestServer server(Echo, {}, "127.0.0.1:0", {.tls = Tls::ForServer(files_).value()});
  auto shake = [&](int version) {
    TestClient client(server.address());
    std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
    SSL_CTX_set_security_level(context.get(), 0);
    SSL_CTX_set_min_proto_version(context.get(), version);
    SSL_CTX_set_max_proto_version(context.get(), version);
    std::unique_ptr<SSL, void (*)(SSL*)> session(SSL_new(context.get()), SSL_free);
    SSL_set_fd(session.get(), client.fd());
    return SSL_connect(session.get()) == 1;
  };
  EXPECT_FALSE(shake(TLS1_1_VERSION));
  EXPECT_TRUE(shake(TLS1_2_VERSION));
  EXPECT_TRUE(shake(TLS1_3_VERSION));
}

TEST_F(TlsTest, NamesTheInvalidFile) {
  auto message = [](const TlsFiles& files) {
    auto tls = Tls::ForServer(files);
    return tls ? std::string() : tls.error().message;
  };
  const std::string empty = directory_ / "empty";
  UniqueFd file(open(empty.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  EXPECT_EQ(message(files_), "");
  EXPECT_THAT(message({directory_ / "none", files_.key}), HasSubstr("read the TLS certificate"));
  EXPECT_THAT(message({files_.certificate, directory_ / "none"}), HasSubstr("read the TLS key"));
  EXPECT_THAT(message({empty, files_.key}), HasSubstr("is not a certificate"));
  EXPECT_THAT(message({files_.certificate, empty}), HasSubstr("is not a private key"));
  EXPECT_THAT(message({files_.certificate, directory_ / "other.key"}), HasSubstr("does not belong to the certificate"));
}

TEST_F(TlsTest, RejectsUnixSockets) {
  ListenOptions options = {.tls = Tls::ForServer(files_).value()};
  EXPECT_FALSE(Listener::Open(*ParseAddress("unix:" + (directory_ / "s")), options));
}

}  // namespace
}  // namespace cella::http
