#include "cli/kept_containers.h"

#include "async/deadline.h"
#include "async/task.h"
#include "docker/engine.h"
#include "executor/container/container.h"

namespace cella::cli {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 3s;
constexpr size_t kMostShown = 50;

async::Task<std::vector<docker::ContainerSummary>> ListKept(async::Loop& loop, docker::EngineAddress address) {
  docker::Engine engine(loop, std::move(address));
  auto ready = co_await engine.Negotiate();
  if (!ready) co_return std::vector<docker::ContainerSummary>{};
  auto listed = co_await engine.List(executor::kKeptLabel);
  co_return listed ? std::move(*listed) : std::vector<docker::ContainerSummary>{};
}

}  // namespace

std::vector<doctor::Check> FindKeptContainers() {
  std::vector<doctor::Check> checks;
  auto address = docker::FindEngine("", docker::EngineSurroundings::FromProcess());
  // A remote engine is not contacted.
  if (!address || !address->url.address.is_unix()) return checks;
  async::Loop loop;
  auto list = [&]() -> async::Task<std::vector<docker::ContainerSummary>> {
    auto found = co_await async::WithDeadline(ListKept(loop, *address), async::Clock::now() + kPatience);
    co_return found ? std::move(*found) : std::vector<docker::ContainerSummary>{};
  };
  for (const docker::ContainerSummary& one : loop.Run(list())) {
    if (checks.size() >= kMostShown) break;
    const bool runs = one.state == "running";
    checks.push_back(
        {.section = doctor::Section::kEngines,
         .name = "container " + one.name,
         .status = doctor::CheckStatus::kInfo,
         .detail = fmt::format("{}; it was asked to stay", one.state),
         .fix = fmt::format("enter it:\n  {}docker exec -it {} sh\nremove it:\n  docker rm -f {}",
                            runs ? "" : fmt::format("docker start {} && ", one.name), one.name, one.name)});
  }
  return checks;
}

}  // namespace cella::cli
