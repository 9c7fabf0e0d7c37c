#include "calls/door.h"

#include <sys/socket.h>

#include "async/deadline.h"
#include "calls/frame.h"

namespace cella::calls {
namespace {

using namespace std::chrono_literals;

// A frame must arrive within this time once it has begun, and an answer must be taken within it.
constexpr auto kFramePatience = 5s;
constexpr size_t kSmallBody = size_t{64} << 10;
constexpr size_t kLargeAtOnce = 4;
// A process that connects without end gets so many answers at a time.
constexpr int kAcceptedPerTurn = 16;
constexpr async::Clock::duration kAcceptPause = 1ms;
constexpr async::Clock::duration kPauseAfterFailure = 50ms;  // no descriptors are left, say

run::HostReply Refusal(std::string why) {
  return {.id = 0, .value = {}, .error = run::HostError{"CallRefused", std::move(why)}};
}

// In one piece or not at all: a new socket has room for it.
void RefuseNow(int connection, std::string why) {
  const std::string frame = EncodeReply(Refusal(std::move(why)));
  (void)!send(connection, frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

// What there is room for, without the signal for a peer that has gone, which the process may not ignore. False: it has.
bool SendNow(int connection, std::string_view* bytes) {
  while (!bytes->empty()) {
    const ssize_t n = send(connection, bytes->data(), bytes->size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) bytes->remove_prefix(static_cast<size_t>(n));
    if (n >= 0 || errno == EINTR) continue;
    return errno == EAGAIN;
  }
  return true;
}

// What has arrived. False: the peer has gone.
bool TakeArrived(int connection, std::span<char>* left) {
  while (!left->empty()) {
    const ssize_t n = recv(connection, left->data(), left->size(), MSG_DONTWAIT);
    if (n > 0) *left = left->subspan(static_cast<size_t>(n));
    if (n > 0 || (n < 0 && errno == EINTR)) continue;
    return n < 0 && errno == EAGAIN;
  }
  return true;
}

async::Task<bool> WriteAll(async::Descriptor& connection, std::string_view bytes) {
  while (SendNow(connection.fd(), &bytes)) {
    if (bytes.empty()) co_return true;
    bool writable = co_await connection.Writable();
    if (!writable) co_return false;
  }
  co_return false;
}

}  // namespace

Door::Door(async::Loop& loop, run::HostCalls& gate, UniqueFd listener, size_t most_connections)
    : loop_(loop),
      gate_(gate),
      most_connections_(most_connections),
      listener_(loop, std::move(listener), async::Sharing::kOurs),
      large_(loop, kLargeAtOnce),
      accepting_(loop) {
  accepting_.Add(Accept());
}

void Door::Open() {
  for (int i = 0; i < SOMAXCONN && AcceptOne(); ++i) {
  }
  connections_ = std::make_unique<async::TaskGroup>(loop_);
}

async::Task<void> Door::Close() {
  if (!connections_) co_return;
  auto ending = std::exchange(connections_, nullptr);
  ending->Cancel();
  co_await ending->Join();
}

async::Task<void> Door::Stop() {
  co_await Close();
  accepting_.Cancel();
  co_await accepting_.Join();
  listener_.Close();
}

bool Door::AcceptOne() {
  UniqueFd connection(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  // A peer that has gone while it waited is one, too.
  if (!connection) return errno == ECONNABORTED || errno == EINTR;
  if (!connections_) {
    RefuseNow(connection.get(), "no run is on");
  } else if (open_ >= most_connections_) {
    RefuseNow(connection.get(), fmt::format("more than {} connections at once", most_connections_));
  } else {
    ++open_;
    connections_->Add(Serve(std::move(connection)));
  }
  return true;
}

async::Task<void> Door::Accept() {
  for (;;) {
    bool readable = co_await listener_.Readable();
    if (!readable) co_return;
    int count = 0;
    while (count < kAcceptedPerTurn && AcceptOne()) ++count;
    const bool failed = count == 0 && errno != EAGAIN;
    if (!failed && count < kAcceptedPerTurn) continue;
    const async::Clock::duration pause = failed ? kPauseAfterFailure : kAcceptPause;
    bool slept = co_await async::SleepUntil(async::Clock::now() + pause);
    if (!slept) co_return;
  }
}

async::Task<void> Door::Serve(UniqueFd fd) {
  {
    async::Descriptor connection(loop_, std::move(fd), async::Sharing::kOurs);
    // Close may have cancelled this task when it was about to go on: the next wait would not end by that.
    for (bool again = true; again && connections_;) again = co_await ServeCall(connection);
  }
  --open_;
}

async::Task<bool> Door::Read(async::Descriptor& connection, std::span<char> buffer) {
  while (!buffer.empty()) {
    auto n = co_await connection.ReadSome(buffer);
    if (!n || *n == 0) co_return false;
    buffer = buffer.subspan(*n);
  }
  co_return true;
}

// Most frames have arrived as a whole: no timer is needed for these.
async::Task<bool> Door::ReadBefore(async::Descriptor& connection, std::span<char> buffer, async::TimePoint deadline) {
  if (!TakeArrived(connection.fd(), &buffer)) co_return false;
  if (buffer.empty()) co_return true;
  auto arrived = co_await async::WithDeadline(Read(connection, buffer), deadline);
  co_return arrived && *arrived;
}

async::Task<bool> Door::Answer(async::Descriptor& connection, run::HostReply reply) {
  const std::string frame = EncodeReply(std::move(reply));
  // A small frame waits for nothing, and needs no timer.
  std::string_view left = frame;
  if (!SendNow(connection.fd(), &left)) co_return false;
  if (left.empty()) co_return true;
  auto written = co_await async::WithDeadline(WriteAll(connection, left), async::Clock::now() + kFramePatience);
  co_return written && *written;
}

// Nothing: the frame did not arrive in time.
async::Task<std::optional<Result<run::HostCall>>> Door::ReadCall(async::Descriptor& connection, FrameSize size,
                                                                 async::TimePoint deadline) {
  std::string header(size.header, '\0'), body(size.body, '\0');
  bool arrived = co_await ReadBefore(connection, header, deadline);
  if (arrived) arrived = co_await ReadBefore(connection, body, deadline);
  if (!arrived) co_return std::nullopt;
  co_return DecodeCall(header, std::move(body));
}

// False: the connection is of no more use.
async::Task<bool> Door::ServeCall(async::Descriptor& connection) {
  // The guest may wait between two calls for as long as the run is on.
  bool begun = co_await connection.Readable();
  if (!begun) co_return false;
  const async::TimePoint deadline = async::Clock::now() + kFramePatience;
  std::array<char, kPrefixBytes> prefix;
  bool arrived = co_await ReadBefore(connection, prefix, deadline);
  if (!arrived) co_return false;
  auto size = DecodePrefix(prefix);
  if (!size) {
    // What follows cannot be told from a next frame.
    (void)co_await Answer(connection, Refusal(size.error().message));
    co_return false;
  }
  std::optional<Result<run::HostCall>> call;
  if (size->body <= kSmallBody) {
    call = co_await ReadCall(connection, *size, deadline);
  } else {
    auto pass = co_await large_.EnterOr(async::SleepUntil(deadline));
    if (!pass || !connections_) {
      (void)co_await Answer(connection, Refusal("too many large calls at once"));
      co_return false;
    }
    call = co_await ReadCall(connection, *size, deadline);
  }
  if (!call) co_return false;
  if (!*call) {
    bool written = co_await Answer(connection, Refusal(call->error().message));
    co_return written;
  }
  // The gate may answer after this connection has ended.
  struct Pending {
    explicit Pending(async::Loop& loop) : answered(loop) {}
    async::Event answered;
    run::HostReply reply;
  };
  auto pending = std::make_shared<Pending>(loop_);
  gate_.Take(std::move(**call), [pending](run::HostReply reply) {
    pending->reply = std::move(reply);
    pending->answered.Set();
  });
  bool answered = co_await pending->answered.Wait();
  if (!answered) co_return false;
  bool written = co_await Answer(connection, std::move(pending->reply));
  co_return written;
}

}  // namespace cella::calls
