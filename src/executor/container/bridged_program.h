// One program of a container: its local descriptors on one side, its channels on the other. What arrives for the local
// side is handed on in the order in which it came: output, then the runner's frames, then the report of the end. A
// checkpoint of a runner writes to the pipes of that program, so what it sends waits in the same queue. Lives on the
// loop.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/wire.h"
#include "async/descriptor.h"
#include "async/notifier.h"
#include "async/task_group.h"
#include "base/unique_fd.h"

namespace cella::executor {

// Where a program's frames and reports go.
class FrameSender {
 public:
  virtual ~FrameSender() = default;
  virtual void Post(agent::Kind kind, uint32_t channel, std::string_view a, std::string_view b = {}) = 0;
  virtual void ReportToJail(const jail::Report& report) = 0;
  // A connection to the call socket has ended.
  virtual void CallEnded() = 0;
};

class BridgedProgram {
 public:
  // The descriptors that came with the request; `input` and `session` may be empty.
  struct Fds {
    UniqueFd input, output, errors, session;
  };
  BridgedProgram(async::Loop& loop, FrameSender& sender, uint32_t tag, Fds fds);
  // A checkpoint: `life` is closed when its process has ended. The writer, which is no checkpoint, outlives it.
  BridgedProgram(async::Loop& loop, FrameSender& sender, uint32_t tag, UniqueFd session, UniqueFd life, int pid,
                 BridgedProgram& writer);
  // A connection to the call socket: it ends when one side closes it.
  bool is_call() const { return tag_ >= agent::kFirstCallTag && writer_ == nullptr; }
  // The program whose pipes it writes to.
  BridgedProgram& writer() { return writer_ == nullptr ? *this : *writer_; }
  bool is_copy_of(const BridgedProgram& program) const { return writer_ == &program; }
  // Of a checkpoint.
  int pid() const { return pid_; }
  void set_reported_as(uint32_t tag) { reported_as_ = tag; }
  // Init reports its end with this tag.
  bool is_reported_as(uint32_t tag) const { return (reported_as_ != 0 ? reported_as_ : tag_) == tag; }

  // From the agent. False: it sent more than the window allows.
  bool Take(agent::Port port, std::string_view bytes);
  void TakeCredit(agent::Port port, uint32_t bytes);
  void TakeClose(agent::Port port);
  void TakeReport(const jail::Report& report);
  void TakeEndOfCopy();
  // For the local side of the session, beside what the agent sends next there.
  void AddDescriptors(std::vector<UniqueFd> fds);

  // What the local side has written to the session's socket goes out now, ahead of what is posted next.
  void FlushSession();
  bool has_ended() const { return has_ended_; }
  // Nothing more comes from the agent: what waits is handed on, then the local side is closed.
  void Cut();
  // Everything that came has been handed on.
  bool is_idle() const { return unfinished_ == 0; }

  // Drops what waits, closes the local side and ends the tasks, also those that are between two waits.
  void Cancel();
  async::Task<void> Join() { return tasks_.Join(); }

 private:
  struct Item {
    BridgedProgram* program;
    agent::Port port;
    std::string bytes;
    std::vector<UniqueFd> fds;
    std::optional<jail::Report> report;
    bool closes = false;
    bool ends = false;  // a checkpoint
  };
  struct Window {
    explicit Window(async::Loop& loop) : has_room(loop) {}
    uint32_t left = agent::kWindow;
    async::Notifier has_room;
  };

  async::Descriptor* LocalOf(agent::Port port);
  void EndCall();
  async::Task<void> HandOn();
  async::Task<void> HandOn(Item item);
  async::Task<void> Pump(agent::Port port, Window& window);
  Item MakeItem(agent::Port port) { return {this, port, {}, {}, std::nullopt}; }
  void Add(Item item);

  FrameSender& sender_;
  const uint32_t tag_;
  std::optional<async::Descriptor> input_, output_, errors_, session_;
  Window input_window_, session_window_;
  BridgedProgram* writer_ = nullptr;  // of a checkpoint
  UniqueFd life_;
  int pid_ = 0;
  uint32_t reported_as_ = 0;
  std::vector<UniqueFd> fds_;  // for the next bytes of the session
  size_t unfinished_ = 0;      // items, in whatever queue
  std::deque<Item> waiting_;   // also those of its checkpoints
  size_t waiting_bytes_[4] = {};
  async::Notifier has_items_;
  bool has_ended_ = false;
  bool is_cancelled_ = false;
  async::TaskGroup tasks_;
};

}  // namespace cella::executor
