// A client of one running kernel: its four channels. Everything that comes is read at once and stored, so that the
// kernel never has to drop it; the owner takes it at its own pace. Lives on the loop; Stop it before it is destroyed.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "async/blocking_pool.h"
#include "jupyter/connection_file.h"
#include "jupyter/message.h"
#include "jupyter/message_store.h"
#include "zmtp/connection.h"

namespace cella::jupyter {

class Client {
 public:
  struct Options {
    std::string session;    // a UUID: names the client to the kernel
    std::string spill_dir;  // where iopub messages go that are not taken in time
    StoreBounds iopub = {};
  };
  // `on_arrival` is called when something came, or a channel was refused. The pool outlives the client.
  Client(async::Loop& loop, async::BlockingPool& pool, const Connection& connection, const Options& options,
         std::function<void()> on_arrival);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void Start();
  async::Task<void> Stop();

  // A channel cannot be used: the kernel does not speak ZMTP 3.
  const std::optional<Error>& refused() const;
  // All channels are connected.
  bool connected() const;
  // Output may still come.
  bool listens() const { return channels_[static_cast<size_t>(Channel::kIopub)]->ready(); }

  // The id of the request.
  Result<std::string> Ask(Channel channel, std::string_view type, std::string content);
  // To a question that came on stdin.
  Status Answer(std::string_view type, std::string content, const Message& parent);

  // The next message that came on the channel; nothing: there is none now. What is no message of this kernel is left
  // out. A large message is read on the pool.
  async::Task<std::optional<Message>> Take(Channel channel);
  bool HasMessage(Channel channel) const;
  // Output between two runs belongs to no run.
  void DropMessages();
  // iopub messages that neither memory nor file had room for, since the last call.
  uint64_t TakeDropped() { return iopub_.TakeDropped(); }

 private:
  void Arrived(Channel channel, zmtp::Message message);
  std::optional<zmtp::Message> TakeRaw(Channel channel);

  async::BlockingPool& pool_;
  Signer signer_;
  MessageStore iopub_;
  std::array<std::deque<zmtp::Message>, kChannels> arrived_;  // of the other channels
  std::array<size_t, kChannels> arrived_bytes_{};
  std::function<void()> on_arrival_;
  std::array<std::unique_ptr<zmtp::Connection>, kChannels> channels_;  // none for the heartbeat
};

}  // namespace cella::jupyter
