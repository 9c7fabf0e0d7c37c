#include "executor/sandbox/cell_context.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>

#include "async/deadline.h"
#include "os/syscalls.h"

namespace cella::executor {
namespace {

// The two descriptors that come with a checkpoint; a guest may send anything, a pidfd of ours included.
std::optional<RunnerCopy> TakeCopy(runner::Channel& channel, const CellContext& context) {
  UniqueFd socket = channel.TakeDescriptor();
  UniqueFd pidfd = channel.TakeDescriptor();
  int32_t group = 0;
  if (!socket || !pidfd) return std::nullopt;
  if (context.in_container) {
    if (recv(pidfd.get(), &group, sizeof group, MSG_DONTWAIT) != sizeof group || group <= 1) return std::nullopt;
  } else if (!os::LivesIn(pidfd.get(), context.pid_namespace)) {
    return std::nullopt;
  }
  auto opened = runner::Channel::Open(std::move(socket));
  if (!opened) return std::nullopt;
  return RunnerCopy{std::move(*opened), std::move(pidfd), group};
}

}  // namespace

Status OpenCellPipes(CellContext* context, os::Pipe* out, os::Pipe* err) {
  TRY(*out, os::MakeOutputPipe());
  TRY(*err, os::MakeOutputPipe());
  context->out = out->read.get();
  context->err = err->read.get();
  TRY_VOID(context->ready.Add(context->out, kKeyOut));
  TRY_VOID(context->ready.Add(context->err, kKeyErr));
  return context->ready.Add(context->jail.control_fd(), kKeyControl);
}

void DropLateOutput(const CellContext& context) {
  std::array<char, 65536> buffer;
  for (int fd : {context.out, context.err}) {
    for (int round = 0; round < 32; ++round) {
      if (os::RetryOnEintr([&] { return read(fd, buffer.data(), buffer.size()); }) <= 0) break;
    }
  }
}

void TakeCheckpoint(const CellContext& context, Runner& runner, const runner::CheckpointFrame& frame) {
  std::optional<RunnerCopy> copy;
  if (frame.status == "taken") copy = TakeCopy(runner.channel, context);
  context.on_checkpoint(frame, std::move(copy));
}

bool TakeIdleFrames(const CellContext& context, Runner& runner) {
  bool expected = true;
  // Only a checkpoint and a late answer are due; a sender of anything else, or of much, is no runner.
  const FramesEnd end = ReadFrames(runner.channel, {}, nullptr, [&](runner::Frame frame) {
    if (auto* checkpoint = std::get_if<runner::CheckpointFrame>(&frame)) {
      TakeCheckpoint(context, runner, *checkpoint);
    } else {
      expected = std::holds_alternative<runner::AnswerFrame>(frame);
    }
    return expected;
  });
  return end == FramesEnd::kDrained && !(runner.pidfd && os::HasEnded(runner.pidfd.get()));
}

namespace {

async::Task<Result<std::string>> AwaitAnswer(const CellContext& context, Runner& runner, async::TimePoint deadline,
                                             const std::optional<std::string>& checkpoint_name) {
  std::optional<std::string> answer;
  auto take = [&](runner::Frame frame) {
    if (auto* reply = std::get_if<runner::AnswerFrame>(&frame); reply != nullptr && !checkpoint_name) {
      answer = std::move(reply->json);
    } else if (auto* checkpoint = std::get_if<runner::CheckpointFrame>(&frame)) {
      TakeCheckpoint(context, runner, *checkpoint);
      // One that an earlier run left behind may come first.
      if (checkpoint_name == checkpoint->name) answer = checkpoint->status;
    }
    return !answer;
  };
  bool ended = false;
  while (async::Clock::now() < deadline) {
    const FramesEnd end = ReadFrames(runner.channel, {}, nullptr, take);
    if (answer) co_return std::move(*answer);
    if (end == FramesEnd::kBroken) co_return Err(ErrorCode::kInvalid, "the interpreter sent no frame");
    if (end == FramesEnd::kBound) {
      co_await async::Yield();
      continue;
    }
    ended = ended || end == FramesEnd::kClosed || context.jail.gone();
    if (ended || (!runner.zygote && context.jail.HasEnd(runner.tag))) {
      co_return Err(ErrorCode::kClosed, "the interpreter has ended");
    }
    auto keys = co_await context.ready.Wait();
    for (int key : keys) {
      // What it sent before its end is still read.
      if (key == kKeyProcess) ended = true;
      if (key == kKeyControl) context.jail.TakeReports();
    }
  }
  co_return Err(ErrorCode::kClosed, "the interpreter does not answer");
}

}  // namespace

async::Task<Result<std::string>> AskRunner(const CellContext& context, Runner& runner, std::string payload,
                                           std::chrono::nanoseconds patience,
                                           const std::optional<std::string>& checkpoint_name) {
  const async::TimePoint deadline = async::Clock::now() + patience;
  auto sent = co_await runner.channel.Send(context.loop, payload, deadline);
  if (!sent) co_return std::unexpected(std::move(sent.error()));
  context.ready.SetDeadline(deadline);
  context.ready.Remove(context.out);
  context.ready.Remove(context.err);
  auto answer = co_await AwaitAnswer(context, runner, deadline, checkpoint_name);
  (void)context.ready.Add(context.out, kKeyOut);
  (void)context.ready.Add(context.err, kKeyErr);
  co_return answer;
}

}  // namespace cella::executor
