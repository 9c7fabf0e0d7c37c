#include "executor/inprocess/plain_runner.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>

#include "async/deadline.h"
#include "os/syscalls.h"

namespace cella::executor {
namespace {

using namespace std::chrono_literals;
using async::Task;

// The first start of an interpreter reads its modules from the disk.
constexpr auto kAnswerPatience = 20s;
constexpr int kFramesAtOnce = 64;

}  // namespace

PlainRunner::PlainRunner(PlainRunnerPlace place, async::ReadySet ready)
    : place_(std::move(place)),
      ready_(std::move(ready)),
      meter_(place_.cgroup.OpenMeter()),
      cells_{place_.loop,
             place_.decoding,
             ready_,
             place_.jail,
             meter_,
             place_.limits,
             -1,
             -1,
             os::NamespaceId{},
             [](const runner::CheckpointFrame&, std::optional<RunnerCopy>) {}} {}

PlainRunner::~PlainRunner() = default;

Task<Result<std::unique_ptr<PlainRunner>>> PlainRunner::Start(PlainRunnerPlace place) {
  CO_TRY(async::ReadySet ready, async::ReadySet::Create(place.loop));
  std::unique_ptr<PlainRunner> runner(new PlainRunner(std::move(place), std::move(ready)));
  CO_TRY_VOID(runner->OpenPipes());
  auto started = co_await runner->Exec();
  CO_TRY_VOID(started);
  auto configured = co_await runner->Configure();
  CO_TRY_VOID(configured);
  co_return std::move(runner);
}

Status PlainRunner::OpenPipes() {
  TRY(out_, os::MakePipe());
  TRY(err_, os::MakePipe());
  for (const os::Pipe* pipe : {&out_, &err_}) {
    if (fcntl(pipe->read.get(), F_SETFL, O_NONBLOCK) < 0) return SysErr(errno, "make a pipe");
  }
  cells_.out = out_.read.get();
  cells_.err = err_.read.get();
  TRY_VOID(ready_.Add(cells_.out, kKeyOut));
  TRY_VOID(ready_.Add(cells_.err, kKeyErr));
  return ready_.Add(place_.jail.control_fd(), kKeyControl);
}

Task<Status> PlainRunner::Exec() {
  CO_TRY(os::SocketPair sockets, os::MakeStreamSockets());
  UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) co_return SysErr(errno, "open '/dev/null'");
  const std::array<int, 3> stdio = {null.get(), out_.write.get(), err_.write.get()};
  confine::ExecRequest request;
  request.argv = place_.argv;
  request.program = request.argv.front();
  request.env = place_.variables.Encode();
  request.search_path = *place_.variables.Find("PATH");
  request.cwd = place_.cwd;
  request.limits = place_.limits.exec;
  request.kill_rest = false;
  CO_TRY(runner_.channel, runner::Channel::Open(std::move(sockets.ours)));
  CO_TRY(runner_.tag, place_.jail.Exec(request, stdio, sockets.theirs.get()));
  // Only the runner holds its end, so that its end is seen.
  sockets.theirs.Reset();
  auto started = co_await AwaitStart();
  CO_TRY_VOID(started);
  co_return ready_.Add(runner_.channel.fd(), kKeyChannel);
}

Task<Status> PlainRunner::AwaitStart() {
  const async::TimePoint deadline = async::Clock::now() + kAnswerPatience;
  for (;;) {
    if (auto started = place_.jail.TakeStart(runner_.tag)) {
      if (!*started) co_return std::unexpected(std::move(started->error()));
      runner_.group = **started;
      co_return Status{};
    }
    if (place_.jail.gone()) co_return Err(ErrorCode::kClosed, "the process tree ended before the interpreter began");
    auto readable = co_await async::WithDeadline(place_.jail.Readable(), deadline);
    if (!readable || !*readable) co_return Err(ErrorCode::kClosed, "the interpreter was not started in time");
    place_.jail.TakeReports();
  }
}

Task<Status> PlainRunner::Configure() {
  auto payload = runner::EncodeConfigure(place_.configuration);
  auto sent = co_await runner_.channel.Send(place_.loop, payload, async::Clock::now() + kAnswerPatience);
  CO_TRY_VOID(sent);
  // Its answer shows that it handles signals: an interrupt of the first run must not kill it.
  auto answered = co_await Ask(runner::EncodeQuestion(CodeQuestion::kIsComplete, "", 0));
  if (answered) co_return Status{};
  Error error = std::move(answered.error());
  co_return std::unexpected(
      std::move(error).WithContext(fmt::format("'{}' does not run cella's runner", place_.argv.front())));
}

bool PlainRunner::IsReady() {
  place_.jail.TakeReports();
  return !place_.jail.gone() && !place_.jail.HasEnd(runner_.tag) && TakeIdleFrames(cells_, runner_);
}

void PlainRunner::DropLateOutput() {
  std::array<char, 65536> buffer;
  for (int fd : {cells_.out, cells_.err}) {
    for (int round = 0; round < 32; ++round) {
      if (os::RetryOnEintr([&] { return read(fd, buffer.data(), buffer.size()); }) <= 0) break;
    }
  }
}

std::unique_ptr<run::Execution> PlainRunner::Run(runner::Cell cell) {
  auto execution = std::make_unique<CellExecution>(cells_, runner_, true);
  execution->Begin(std::move(cell));
  return execution;
}

// Output of background threads does not belong to a question; it waits for the next run.
void PlainRunner::ShowOutput(bool shown) {
  for (auto [fd, key] : {std::pair(cells_.out, kKeyOut), std::pair(cells_.err, kKeyErr)}) {
    if (shown) {
      (void)ready_.Add(fd, key);
    } else {
      ready_.Remove(fd);
    }
  }
}

Task<Result<std::string>> PlainRunner::Ask(std::string question) {
  const async::TimePoint deadline = async::Clock::now() + kAnswerPatience;
  auto sent = co_await runner_.channel.Send(place_.loop, question, deadline);
  CO_TRY_VOID(sent);
  std::optional<std::string> answer;
  auto take = [&](runner::Frame frame) {
    if (auto* reply = std::get_if<runner::AnswerFrame>(&frame)) answer = std::move(reply->json);
    return !answer;
  };
  ShowOutput(false);
  ready_.SetDeadline(deadline);
  Result<std::string> result = Err(ErrorCode::kClosed, "the interpreter does not answer");
  while (async::Clock::now() < deadline) {
    const FramesEnd end = ReadFrames(runner_.channel, {.frames = kFramesAtOnce}, nullptr, take);
    if (answer) {
      result = std::move(*answer);
      break;
    }
    if (end == FramesEnd::kBroken) {
      result = Err(ErrorCode::kInvalid, "the interpreter sent no frame");
      break;
    }
    if (end == FramesEnd::kClosed || place_.jail.gone() || place_.jail.HasEnd(runner_.tag)) {
      result = Err(ErrorCode::kClosed, "the interpreter has ended");
      break;
    }
    if (end == FramesEnd::kBound) {
      co_await async::Yield();
      continue;
    }
    auto keys = co_await ready_.Wait();
    for (int key : keys) {
      if (key == kKeyControl) place_.jail.TakeReports();
    }
  }
  ShowOutput(true);
  co_return result;
}

}  // namespace cella::executor
