// The agent's loop: frames of the supervisor on one side, init and the programs' descriptors on the other. One thread;
// it waits in poll() only.
#pragma once

#include <list>
#include <string>
#include <string_view>
#include <vector>

#include "agent/channel.h"
#include "agent/files.h"
#include "agent/meter.h"
#include "agent/wire.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace cella::agent {

class Relay {
 public:
  // `input` and `output` are the stream; both are non-blocking. `control` is init's socket.
  Relay(int input, int output, UniqueFd control, Files files, Meter meter)
      : input_(input), output_(output), control_(std::move(control)), files_(std::move(files)), meter_(meter) {}

  // Until the stream ends, the supervisor ends the session, or is silent for too long. `received` was read behind the
  // first frame. False: init is gone.
  bool Run(std::string received);

  // Sends kLeft behind what waits. An engine that keeps the container's streams open would not show their end.
  void TakeLeave();

 private:
  struct Program {
    uint32_t tag = 0;
    Channel input, output, errors, session;
    std::string held;    // of the session, sent when what was written before it has been
    size_t drained = 0;  // bytes of output that were read for `held` or `ended`
    bool session_ended = false;
    bool is_call = false;  // a connection to the call socket: only `session`
    std::optional<jail::Report> ended;
    bool has_left = false;  // its end was reported, and checkpoints of it still write to its pipes
    // Of a checkpoint: only `session` as well.
    uint32_t writes_to = 0;  // the tag of the program whose pipes it has; 0: it is none
    UniqueFd process;        // readable when it has ended
    int32_t pid = 0;
    uint32_t adopted = 0;  // the tag under which init reports its end; 0: it does not
    int64_t died = 0;      // when its end was seen; 0: it lives
  };

  void Send(Kind kind, uint32_t channel, std::string_view a, std::string_view b = {});
  void SendReport(const jail::Report& report);
  bool TakeFrames();
  bool TakeFrame(const Header& header, std::string_view payload);
  Status Exec(uint32_t tag, std::string_view payload);
  void Forward(std::string_view payload);
  void Listen();
  bool MayAccept() const;
  void Accept();
  bool TakeReports();
  void TakeReport(const jail::Report& report);
  Program* Find(uint32_t tag);
  Program* FindReported(uint32_t tag);
  // Whose pipes this program writes to.
  Program& WriterOf(Program& program);
  uint32_t NewTag();
  void TakeCopy(Program& source, std::vector<UniqueFd> fds);
  Channel::Got ReceiveSession(Program& program);
  bool EndsNow(Program& program);
  void Forget(Program& program);
  Channel* FindChannel(uint32_t number);
  void Serve(Program& program);
  bool WorksOn(Program& program);
  bool Drain(Program& program);
  bool ReadOutput(Channel& channel, size_t* drained);
  bool Flush();
  bool HasRoom() const { return sending_.size() - sent_ < kMostQueued; }

  static constexpr size_t kMostQueued = 512u << 10;
  static constexpr size_t kMostPrograms = 32;
  // More than the supervisor serves at once, so that it can refuse. Others wait until they are accepted.
  static constexpr size_t kMostCalls = 48;
  // Of checkpoints, also those that are ending.
  static constexpr size_t kMostCopies = 32;

  const int input_;
  const int output_;
  UniqueFd control_;
  Files files_;
  const Meter meter_;
  std::string received_;
  std::string sending_;
  size_t sent_ = 0;
  std::list<Program> programs_;
  size_t calls_ = 0;   // of the programs
  size_t copies_ = 0;  // as well
  UniqueFd listener_;
  uint32_t last_tag_ = kFirstCallTag;  // that was given here
};

}  // namespace cella::agent
