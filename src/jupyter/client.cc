#include "jupyter/client.h"

#include <algorithm>

namespace cella::jupyter {
namespace {

// Replies that wait to be taken. There is one request at a time, so more are no replies.
constexpr size_t kMostReplies = 256;
constexpr size_t kMostReplyBytes = size_t{64} << 20;
// Verifying and reading one takes about a millisecond per 100 kB.
constexpr size_t kLarge = size_t{64} << 10;

constexpr std::array<Channel, 4> kUsed = {Channel::kShell, Channel::kIopub, Channel::kStdin, Channel::kControl};

size_t SizeOf(const zmtp::Message& message) {
  size_t size = 0;
  for (const std::string& part : message.parts) size += part.size();
  return size;
}

}  // namespace

Client::Client(async::Loop& loop, async::BlockingPool& pool, const Connection& connection, const Options& options,
               std::function<void()> on_arrival)
    : pool_(pool),
      signer_(connection.key, options.session, "cella"),
      iopub_(options.spill_dir, options.iopub),
      on_arrival_(std::move(on_arrival)) {
  for (Channel channel : kUsed) {
    zmtp::PeerOptions peer;
    peer.kind = channel == Channel::kIopub ? zmtp::SocketKind::kSub : zmtp::SocketKind::kDealer;
    // The kernel sends input requests to the identity that sent the execute request: both sockets have the same one.
    peer.identity = options.session;
    zmtp::Connection::Listener listener{
        .on_message = [this, channel](zmtp::Message message) { Arrived(channel, std::move(message)); },
        .on_change = [this] { on_arrival_(); }};
    channels_[static_cast<size_t>(channel)] =
        std::make_unique<zmtp::Connection>(loop, connection.EndpointOf(channel), std::move(peer), std::move(listener));
  }
}

void Client::Start() {
  for (Channel channel : kUsed) channels_[static_cast<size_t>(channel)]->Start();
}

async::Task<void> Client::Stop() {
  for (Channel channel : kUsed) co_await channels_[static_cast<size_t>(channel)]->Stop();
}

const std::optional<Error>& Client::refused() const {
  static const std::optional<Error> kNone;
  for (const auto& channel : channels_) {
    if (channel && channel->refused()) return channel->refused();
  }
  return kNone;
}

bool Client::connected() const {
  return std::ranges::all_of(channels_, [](const auto& channel) { return !channel || channel->ready(); });
}

void Client::Arrived(Channel channel, zmtp::Message message) {
  if (channel == Channel::kIopub) {
    iopub_.Push(std::move(message));
  } else {
    auto& queue = arrived_[static_cast<size_t>(channel)];
    size_t& bytes = arrived_bytes_[static_cast<size_t>(channel)];
    const size_t size = SizeOf(message);
    if (queue.size() >= kMostReplies || (!queue.empty() && bytes + size > kMostReplyBytes)) return;
    bytes += size;
    queue.push_back(std::move(message));
  }
  on_arrival_();
}

Result<std::string> Client::Ask(Channel channel, std::string_view type, std::string content) {
  Signer::Outgoing out = signer_.Make(type, std::move(content));
  TRY_VOID(channels_[static_cast<size_t>(channel)]->Send(out.parts));
  return std::move(out.id);
}

Status Client::Answer(std::string_view type, std::string content, const Message& parent) {
  Signer::Outgoing out = signer_.MakeReply(type, std::move(content), parent);
  return channels_[static_cast<size_t>(Channel::kStdin)]->Send(out.parts);
}

bool Client::HasMessage(Channel channel) const {
  return channel == Channel::kIopub ? !iopub_.empty() : !arrived_[static_cast<size_t>(channel)].empty();
}

std::optional<zmtp::Message> Client::TakeRaw(Channel channel) {
  if (channel == Channel::kIopub) return iopub_.Take();
  auto& queue = arrived_[static_cast<size_t>(channel)];
  if (queue.empty()) return std::nullopt;
  zmtp::Message message = std::move(queue.front());
  queue.pop_front();
  arrived_bytes_[static_cast<size_t>(channel)] -= SizeOf(message);
  return message;
}

async::Task<std::optional<Message>> Client::Take(Channel channel) {
  while (auto raw = TakeRaw(channel)) {
    auto read = [&] { return signer_.Read(*raw); };
    if (SizeOf(*raw) <= kLarge) {
      auto message = read();
      if (message) co_return std::move(*message);
      continue;
    }
    auto message = co_await pool_.Run(read);
    if (message) co_return std::move(*message);
    if (message.error().code != ErrorCode::kInvalid) co_return std::nullopt;  // cancelled, or no thread is free
  }
  co_return std::nullopt;
}

void Client::DropMessages() {
  iopub_.Clear();
  for (auto& queue : arrived_) queue.clear();
  arrived_bytes_ = {};
}

}  // namespace cella::jupyter
