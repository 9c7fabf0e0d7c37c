// The agent's loop: frames of the supervisor on one side, init and the programs' descriptors on the other. One thread;
// it waits in poll() only.
#pragma once

#include <list>
#include <string>
#include <string_view>

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
  Channel* FindChannel(uint32_t number);
  void Serve(Program& program);
  bool Drain(Program& program);
  bool ReadOutput(Channel& channel, size_t* drained);
  bool Flush();
  bool HasRoom() const { return sending_.size() - sent_ < kMostQueued; }

  static constexpr size_t kMostQueued = 512u << 10;
  static constexpr size_t kMostPrograms = 32;
  // More than the supervisor serves at once, so that it can refuse. Others wait until they are accepted.
  static constexpr size_t kMostCalls = 48;

  const int input_;
  const int output_;
  UniqueFd control_;
  Files files_;
  const Meter meter_;
  std::string received_;
  std::string sending_;
  size_t sent_ = 0;
  std::list<Program> programs_;
  size_t calls_ = 0;  // of the programs
  UniqueFd listener_;
  uint32_t last_call_ = kFirstCallTag;
};

}  // namespace cella::agent
