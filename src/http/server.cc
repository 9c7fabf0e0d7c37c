#include "http/server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <list>
#include <unordered_set>

#include "async/deadline.h"
#include "async/descriptor.h"
#include "async/event.h"
#include "async/task_group.h"
#include "base/scope_exit.h"
#include "http/connection.h"
#include "os/peer.h"

namespace cella::http {

using async::Clock;
using async::Task;

namespace {

constexpr auto kAcceptPause = std::chrono::milliseconds(100);
constexpr auto kCancelPause = std::chrono::milliseconds(20);

Peer DescribePeer(int fd, const sockaddr_storage& address, const os::OwnNamespaces& own) {
  Peer peer;
  if (address.ss_family == AF_INET || address.ss_family == AF_INET6) {
    peer.address = FromSocketAddress(address).ToString();
    return peer;
  }
  peer.is_unix = true;
  const os::PeerProcess process = os::DescribePeer(fd, own);
  peer.uid = process.uid;
  peer.pid = process.pid;
  peer.shares_namespaces = process.shares_namespaces;
  peer.address = fmt::format("unix:uid={},pid={}", static_cast<int64_t>(peer.uid), peer.pid);
  return peer;
}

void SetTcpOptions(int fd) {
  const int on = 1, idle = 60;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  // An open event stream that writes nothing would not learn that the other machine is gone.
  (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
}

}  // namespace

class Server::Impl {
 public:
  Impl(async::Loop& loop, Handler& handler, const Limits& limits)
      : context_{.loop = loop, .handler = handler, .limits = limits},
        deadlines_(loop),
        accepting_(loop),
        serving_(loop),
        watching_(loop) {}

  void Start(Listener listener) {
    Watch();
    accepting_.Add(Accept(std::move(listener)));
  }

  void Serve(UniqueFd fd) {
    Watch();
    sockaddr_storage address = {};
    socklen_t size = sizeof address;
    (void)getpeername(fd.get(), reinterpret_cast<sockaddr*>(&address), &size);
    Admit(std::move(fd), address, nullptr);
  }

  void StopAccepting() {
    stopping_ = true;
    accepting_.Cancel();
  }

  Task<void> Drain(async::TimePoint deadline) {
    StopAccepting();
    context_.draining = true;
    for (Connection* connection : connections_) connection->CloseIfIdle();
    async::Event empty(context_.loop);
    when_empty_ = &empty;
    if (connections_.empty()) empty.Set();
    (void)co_await async::WithDeadline(empty.Wait(), deadline);
    // A cancellation that comes between two waits of a handler is not noticed by the second: hence more than one.
    while (!connections_.empty()) {
      for (Connection* connection : connections_) connection->Kill();
      serving_.Cancel();
      (void)co_await async::WithDeadline(empty.Wait(), Clock::now() + kCancelPause);
    }
    when_empty_ = nullptr;
    co_await Join();
  }

  Task<void> Join() {
    co_await accepting_.Join();
    co_await serving_.Join();
    deadlines_.Stop();
    co_await watching_.Join();
  }

  size_t connections() const { return connections_.size(); }

 private:
  void Watch() {
    if (std::exchange(is_watching_, true)) return;
    watching_.Add(deadlines_.Run());
  }

  Task<void> Accept(Listener listener) {
    // Ends before the listener does: the file of a socket is removed when no process listens on it any more.
    async::Descriptor socket(context_.loop, listener.TakeFd(), async::Sharing::kOurs);
    auto tls = listener.tls() ? std::make_shared<const Tls>(*listener.tls()) : nullptr;
    while (!stopping_) {
      bool ready = co_await socket.Readable();
      if (!ready) co_return;
      bool exhausted = AcceptAll(socket.fd(), tls);
      if (!exhausted) continue;
      bool slept = co_await async::SleepUntil(Clock::now() + kAcceptPause);
      if (!slept) co_return;
    }
  }

  // True when the process or the machine is out of something, and trying again at once would only spin.
  bool AcceptAll(int listening, const std::shared_ptr<const Tls>& tls) {
    constexpr int kAtOnce = 64;  // then the connected clients have a turn
    for (int i = 0; i < kAtOnce; ++i) {
      sockaddr_storage address = {};
      socklen_t size = sizeof address;
      UniqueFd fd(accept4(listening, reinterpret_cast<sockaddr*>(&address), &size, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (fd) {
        try {
          Admit(std::move(fd), address, tls);
        } catch (...) {
          return true;  // out of memory
        }
        continue;
      }
      switch (errno) {
        case EMFILE:
        case ENFILE:
        case ENOBUFS:
        case ENOMEM: return true;
        case EAGAIN: return false;
        default: break;  // this one client is gone already, or its network is
      }
    }
    return false;
  }

  void Admit(UniqueFd fd, const sockaddr_storage& address, std::shared_ptr<const Tls> tls) {
    constexpr size_t kRefusedAtOnce = 64;
    const bool is_tcp = address.ss_family == AF_INET || address.ss_family == AF_INET6;
    if (is_tcp) SetTcpOptions(fd.get());
    if (connections_.size() >= context_.limits.connections) {
      // With TLS nothing can be said before a handshake, which is what there is no room for.
      if (tls == nullptr && refused_ < kRefusedAtOnce) {
        ++refused_;
        serving_.Add(TurnAway(std::move(fd)));
      }
      return;
    }
    Peer peer = DescribePeer(fd.get(), address, own_);
    auto stream = Stream::Create(context_.loop, std::move(fd), &deadlines_);
    if (!stream) return;
    auto connection = std::make_unique<Connection>(context_, std::move(*stream), std::move(peer));
    connections_.insert(connection.get());  // here, since the task may start later and the limit holds now
    serving_.Add(ServeOne(std::move(connection), std::move(tls)));
  }

  Task<void> ServeOne(std::unique_ptr<Connection> connection, std::shared_ptr<const Tls> tls) {
    try {
      co_await connection->Serve(tls.get());
    } catch (...) {
      // Out of memory, or a bug below: this connection ends, the others go on.
    }
    connections_.erase(connection.get());
    if (connections_.empty() && when_empty_ != nullptr) when_empty_->Set();
  }

  Task<void> TurnAway(UniqueFd fd) {
    auto stream = Stream::Create(context_.loop, std::move(fd), &deadlines_);
    ScopeExit leave([this] { --refused_; });
    if (!stream) co_return;
    const std::string body = ErrorBody("too_many_connections", "the server has as many connections as it may have");
    const std::vector<Header> headers = {{"Content-Type", "application/json"}, {"Retry-After", "1"}};
    std::string answer;
    const ResponseHead head = {
        .status = 503, .headers = headers, .framing = Framing::kLength, .length = body.size(), .after = After::kClose};
    FormatHead(head, context_.date.Now(), answer);
    answer += body;
    (*stream)->WriteNow(answer);
    (*stream)->EndWriting();
    // Unread bytes would turn the close into a reset, which overtakes the answer.
    (*stream)->AllowReadsUntil(Clock::now() + std::chrono::seconds(1));
    for (int i = 0; i < 16; ++i) {
      std::array<char, 1024> ignored;
      auto n = co_await (*stream)->Read(ignored);
      if (!n || *n == 0) break;
    }
  }

  ConnectionContext context_;
  const os::OwnNamespaces own_ = os::OwnNamespaces::Read();
  Deadlines deadlines_;
  async::TaskGroup accepting_;
  async::TaskGroup serving_;
  async::TaskGroup watching_;
  std::unordered_set<Connection*> connections_;
  async::Event* when_empty_ = nullptr;
  size_t refused_ = 0;
  bool stopping_ = false;
  bool is_watching_ = false;
};

Server::Server(async::Loop& loop, Handler& handler, const Limits& limits)
    : impl_(std::make_unique<Impl>(loop, handler, limits)) {}
Server::~Server() = default;

void Server::Start(Listener listener) { impl_->Start(std::move(listener)); }
void Server::Serve(UniqueFd connection) { impl_->Serve(std::move(connection)); }
void Server::StopAccepting() { impl_->StopAccepting(); }
Task<void> Server::Drain(async::TimePoint deadline) { return impl_->Drain(deadline); }
Task<void> Server::Join() { return impl_->Join(); }
size_t Server::connections() const { return impl_->connections(); }

}  // namespace cella::http
