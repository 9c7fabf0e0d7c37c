// One ZeroMQ connection of ours, driven by lines: for the tests against real peers.
//   cella-zmtp dealer|sub ipc:DIRECTORY/NAME|tcp:PORT [IDENTITY]
// A line of standard input is a message, its parts separated by tabs. Printed: "connected N", "refused REASON", and for
// each message "message PART\tPART"; a part of more than 100 bytes as "#SIZE:SHA256".
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "async/descriptor.h"
#include "base/sha256.h"
#include "zmtp/connection.h"

namespace {

using namespace cella;

void Print(const std::string& line) {
  (void)std::fputs((line + "\n").c_str(), stdout);
  (void)std::fflush(stdout);
}

std::string Shown(const std::string& part) {
  return part.size() <= 100 ? part : fmt::format("#{}:{}", part.size(), Sha256Hex(part));
}

Result<zmtp::Endpoint> ParseEndpoint(const std::string& text) {
  zmtp::Endpoint endpoint;
  if (text.starts_with("tcp:")) {
    endpoint.port = static_cast<uint16_t>(std::stoi(text.substr(4)));
    return endpoint;
  }
  const std::string path = text.substr(4);
  const size_t slash = path.rfind('/');
  UniqueFd directory(open(path.substr(0, slash).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return SysErr(errno, "open '{}'", path);
  endpoint.directory = std::make_shared<const UniqueFd>(std::move(directory));
  endpoint.name = path.substr(slash + 1);
  return endpoint;
}

async::Task<void> Drive(async::Loop& loop, zmtp::Connection& connection) {
  connection.Start();
  async::Descriptor input(loop, UniqueFd(dup(STDIN_FILENO)), async::Sharing::kOurs);
  std::array<char, 65536> buffer;
  std::string pending;
  for (;;) {
    auto n = co_await input.ReadSome(buffer);
    if (!n || *n == 0) break;
    pending.append(buffer.data(), *n);
    for (size_t end = 0; (end = pending.find('\n')) != std::string::npos; pending.erase(0, end + 1)) {
      std::vector<std::string> parts(1);
      for (char c : pending.substr(0, end)) {
        if (c == '\t') {
          parts.emplace_back();
        } else {
          parts.back() += c;
        }
      }
      if (auto sent = connection.Send(parts); !sent) Print("unsent " + sent.error().message);
    }
  }
  co_await connection.Stop();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  auto endpoint = ParseEndpoint(argv[2]);
  if (!endpoint) {
    Print("refused " + endpoint.error().message);
    return 1;
  }
  async::Loop loop;
  zmtp::PeerOptions options;
  options.kind = std::string(argv[1]) == "sub" ? zmtp::SocketKind::kSub : zmtp::SocketKind::kDealer;
  if (argc > 3) options.identity = argv[3];
  options.bounds.message_bytes = size_t{1} << 20;
  zmtp::Connection* self = nullptr;
  unsigned connects = 0;
  zmtp::Connection connection(loop, std::move(*endpoint), std::move(options),
                              {.on_message =
                                   [](zmtp::Message message) {
                                     std::string line = "message ";
                                     for (size_t i = 0; i < message.parts.size(); ++i)
                                       line += (i > 0 ? "\t" : "") + Shown(message.parts[i]);
                                     if (message.skipped > 0) line += fmt::format("\tskipped {}", message.skipped);
                                     Print(line);
                                   },
                               .on_change =
                                   [&] {
                                     if (self->refused()) Print("refused " + self->refused()->message);
                                     if (self->connects() != connects)
                                       Print(fmt::format("connected {}", connects = self->connects()));
                                   }},
                              {.handshake = std::chrono::seconds(1)});
  self = &connection;
  loop.Run(Drive(loop, connection));
  return 0;
}
