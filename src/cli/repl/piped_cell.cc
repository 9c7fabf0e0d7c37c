#include "cli/repl/piped_cell.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>

#include "async/deadline.h"
#include "async/signals.h"
#include "language/plan.h"

namespace cella::cli {
namespace {

async::Task<Result<std::string>> ReadStandardInput(async::Loop& loop) {
  async::Opened input = async::OpenPrivately(STDIN_FILENO, O_RDONLY);
  if (!input.fd) co_return Err(ErrorCode::kInvalid, "standard input is closed");
  async::Descriptor source(loop, std::move(input.fd), input.sharing);
  std::string text;
  std::array<char, 65536> buffer;
  for (;;) {
    auto n = co_await source.ReadSome(buffer);
    if (!n) co_return std::unexpected(std::move(n.error()).WithContext("standard input"));
    if (*n == 0) co_return std::move(text);
    text.append(buffer.data(), *n);
    if (text.size() > language::kMaxCodeBytes) {
      co_return Err(ErrorCode::kInvalid, "standard input: more than {} bytes", language::kMaxCodeBytes);
    }
  }
}

}  // namespace

async::Task<int> RunPipedCell(async::Loop& loop, session::Session& session, RunView& view, std::string language) {
  async::StopSignals stop(loop);
  auto first = co_await async::FirstOf(ReadStandardInput(loop), stop.Wait());
  if (first.index() == 1) co_return kExitCancelled;
  auto code = std::move(std::get<0>(first));
  if (!code) {
    co_await view.Complain(code.error().message);
    co_return kExitRejected;
  }
  RunSpec spec;
  spec.blocks = {{std::move(language), std::move(*code)}};
  auto run = session.Submit(std::move(spec), &view);
  if (run) {
    // A cell writes to a pipe of its session, which stays open: code that prints without end would go on.
    view.set_on_reader_gone([&] { (void)(*run)->Stop(StopReason::kClientGone); });
    auto second = co_await async::FirstOf((*run)->Ended(), stop.Wait());
    if (second.index() == 1) {
      (void)(*run)->Stop(StopReason::kCancel);
      (void)co_await (*run)->Ended();
    }
    view.set_on_reader_gone(nullptr);
    co_return (*run)->result().outcome.exit_code;
  }
  co_await view.Complain(run.error().message);
  co_return kExitRejected;
}

}  // namespace cella::cli
