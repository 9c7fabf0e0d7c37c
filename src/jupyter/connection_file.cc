#include "jupyter/connection_file.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "jupyter/json.h"

namespace cella::jupyter {
namespace {

constexpr const char* kPrefix = "k";

}  // namespace

zmtp::Endpoint Connection::EndpointOf(Channel channel) const {
  const uint16_t port = ports[static_cast<size_t>(channel)];
  if (is_ipc()) return {.directory = directory, .name = fmt::format("{}-{}", kPrefix, port)};
  return {.directory = nullptr, .name = {}, .port = port};
}

std::string Connection::Encode() const {
  Json json = {{"transport", is_ipc() ? "ipc" : "tcp"},
               {"ip", is_ipc() ? path + "/" + kPrefix : "127.0.0.1"},
               {"key", key},
               {"signature_scheme", "hmac-sha256"},
               {"kernel_name", kernel_name}};
  constexpr std::array<const char*, kChannels> kNames = {"shell_port", "iopub_port", "stdin_port", "control_port",
                                                         "hb_port"};
  for (size_t i = 0; i < kChannels; ++i) json[kNames[i]] = ports[i];
  return json.dump(2) + "\n";
}

Result<Connection> MakeIpcConnection(std::shared_ptr<const UniqueFd> directory, std::string path,
                                     std::string kernel_name) {
  constexpr size_t kLongestPath = sizeof(sockaddr_un::sun_path) - 1;
  const size_t longest_name = std::string_view("/k-5").size();
  if (path.size() + longest_name > kLongestPath) {
    return Err(ErrorCode::kInvalid, "sockets in '{}': the path is longer than {} bytes; set TMPDIR to a shorter one",
               path, kLongestPath - longest_name);
  }
  Connection connection;
  connection.directory = std::move(directory);
  connection.path = std::move(path);
  TRY(connection.key, MakeUuid());
  connection.kernel_name = std::move(kernel_name);
  return connection;
}

Result<Connection> MakeTcpConnection(std::string kernel_name) {
  Connection connection;
  std::array<UniqueFd, kChannels> held;  // until all are chosen, so that they differ
  for (size_t i = 0; i < kChannels; ++i) {
    held[i].Reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* name = reinterpret_cast<sockaddr*>(&address);
    if (!held[i] || bind(held[i].get(), name, size) < 0 || getsockname(held[i].get(), name, &size) < 0) {
      return SysErr(errno, "choose a port of 127.0.0.1");
    }
    connection.ports[i] = ntohs(address.sin_port);
  }
  TRY(connection.key, MakeUuid());
  connection.kernel_name = std::move(kernel_name);
  return connection;
}

Result<std::string> MakeUuid() {
  std::array<uint8_t, 16> bytes;
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) return SysErr(errno, "getrandom");
  bytes[6] = static_cast<uint8_t>((bytes[6] & 0x0f) | 0x40);
  bytes[8] = static_cast<uint8_t>((bytes[8] & 0x3f) | 0x80);
  std::string text;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", bytes[i]);
  }
  return text;
}

}  // namespace cella::jupyter
