#include "executor/inprocess/plain_runner.h"

#include <fcntl.h>

#include <array>

#include "async/deadline.h"

namespace cella::executor {
namespace {

using namespace std::chrono_literals;
using async::Task;

// The first start of an interpreter reads its modules from the disk.
constexpr auto kAnswerPatience = 20s;

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
  CO_TRY_VOID(OpenCellPipes(&runner->cells_, &runner->out_, &runner->err_));
  auto started = co_await runner->Exec();
  CO_TRY_VOID(started);
  auto configured = co_await runner->Configure();
  CO_TRY_VOID(configured);
  co_return std::move(runner);
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

std::unique_ptr<run::Execution> PlainRunner::Run(runner::Cell cell) {
  auto execution = std::make_unique<CellExecution>(cells_, runner_, true);
  execution->Begin(std::move(cell));
  return execution;
}

Task<Result<std::string>> PlainRunner::Ask(std::string question) {
  auto answer = co_await AskRunner(cells_, runner_, std::move(question), kAnswerPatience);
  co_return answer;
}

}  // namespace cella::executor
