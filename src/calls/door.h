// Accepts connections of a guest's processes to the call socket and hands their calls to the gate. While no run is on,
// a connection is refused, so that the guest holds none between runs. Whatever the guest does here costs it its own
// calls and the supervisor a bounded amount. Lives on the loop; Stop it before it is destroyed.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "async/descriptor.h"
#include "async/gate.h"
#include "async/task_group.h"
#include "base/unique_fd.h"
#include "calls/frame.h"
#include "run/host_calls.h"

namespace cella::calls {

class Door {
 public:
  // Twice as many as calls that are open by default.
  static constexpr size_t kMostConnections = 32;

  // `listener` is a Unix stream socket that listens. The gate outlives the door.
  Door(async::Loop& loop, run::HostCalls& gate, UniqueFd listener, size_t most_connections = kMostConnections);
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  // A run is on. Connections from before are refused first.
  void Open();
  // The run is over: ends every connection.
  async::Task<void> Close();
  // Takes no more connections.
  async::Task<void> Stop();

 private:
  async::Task<void> Accept();
  // False: there is none.
  bool AcceptOne();
  async::Task<void> Serve(UniqueFd connection);
  async::Task<bool> ServeCall(async::Descriptor& connection);
  async::Task<std::optional<Result<run::HostCall>>> ReadCall(async::Descriptor& connection, FrameSize size,
                                                             async::TimePoint deadline);
  async::Task<bool> Read(async::Descriptor& connection, std::span<char> buffer);
  // False: it did not arrive in time.
  async::Task<bool> ReadBefore(async::Descriptor& connection, std::span<char> buffer, async::TimePoint deadline);
  async::Task<bool> Answer(async::Descriptor& connection, run::HostReply reply);

  async::Loop& loop_;
  run::HostCalls& gate_;
  const size_t most_connections_;
  async::Descriptor listener_;
  async::Gate large_;                              // bounds what half-sent frames hold
  std::unique_ptr<async::TaskGroup> connections_;  // of the run that is on; null: none is
  size_t open_ = 0;
  async::TaskGroup accepting_;
};

}  // namespace cella::calls
