// The supervisor's side of a zygote: a warm interpreter, in a maker's world, that forks copies of itself into jails.
// Shared by the sessions of one environment; lives on the loop. When it goes away, the zygote is killed; its forks
// stay.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>

#include "async/descriptor.h"
#include "async/task.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "jail/protocol.h"

namespace cella::executor {

class Zygote {
 public:
  // Waits until it serves. kUnsupported: it cannot (a module that does not import, an interpreter without ctypes).
  static async::Task<Result<std::shared_ptr<Zygote>>> Connect(async::Loop& loop, UniqueFd control);

  struct Newborn {
    UniqueFd pidfd;
    uint32_t tag = 0;
  };
  // kClosed: the zygote died; try another one.
  async::Task<Result<Newborn>> Fork(const jail::ForkSpec& spec, std::span<const int> fds);

  struct End {
    int wait_status = 0;  // as from waitpid
    uint64_t cpu_ns = 0;  // of the process and of the children that it has waited for
    uint64_t peak_rss = 0;
  };
  // How a process ended whose pidfd is readable; nothing when it is unknown.
  async::Task<std::optional<End>> WaitEnd(uint32_t tag);
  // Another child of it: a checkpoint that goes on as a runner. `pid` as the zygote sees it.
  uint32_t Adopt(int pid);

  // What a newborn said that could not become a guest, after all.
  std::optional<jail::Report> TakeFailure(uint32_t tag);

  bool alive() const { return !gone_; }
  ~Zygote();

 private:
  explicit Zygote(async::Loop& loop, UniqueFd control) : control_(loop, std::move(control), async::Sharing::kOurs) {}

  struct Answer {
    std::optional<jail::Report> report;
    UniqueFd fd;
  };
  // Takes the messages that are there, a bounded number, and puts each where it is waited for.
  void Receive();
  async::Task<Answer> WaitFor(uint32_t tag);
  Status Send(const jail::Request& request, std::span<const int> fds);

  async::Descriptor control_;
  UniqueFd pidfd_;  // from the maker, before the zygote runs
  bool gone_ = false;
  std::string last_words_;
  uint32_t last_tag_ = 0;
  std::map<uint32_t, Answer> waiting_;
  std::map<uint32_t, jail::Report> failures_;  // that no task waited for; the newest few
};

}  // namespace cella::executor
