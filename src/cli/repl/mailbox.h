// Everything that the interactive loop waits for, in the order in which it came: keys, the end of a run, a question of
// the guest's, the end of us all. One task takes, others post; all on the loop.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "async/event.h"
#include "cli/repl/key_decoder.h"

namespace cella::cli {

struct RunEnded {};
struct InputWanted {
  std::string prompt;
  bool password = false;
};
struct PackagesProgress {
  std::string line;  // of the installer
};
struct PackagesChanged {};
struct TerminalChanged {};  // another program set its modes: we were stopped and continued, say
struct SessionEnded {};
struct Hangup {};
struct StopSignal {};

using Message = std::variant<Key, RunEnded, InputWanted, PackagesProgress, PackagesChanged, TerminalChanged,
                             SessionEnded, Hangup, StopSignal>;

class Mailbox {
 public:
  explicit Mailbox(async::Loop& loop) : loop_(loop) {}

  void Post(Message message) {
    // What is typed ahead is kept within bounds.
    if (std::holds_alternative<Key>(message) && messages_.size() >= kMaxWaiting) return;
    messages_.push_back(std::move(message));
    if (arrival_) arrival_->Set();
  }

  // Before all others.
  void PutBack(std::vector<Message> messages) {
    messages_.insert(messages_.begin(), std::make_move_iterator(messages.begin()),
                     std::make_move_iterator(messages.end()));
  }

  bool empty() const { return messages_.empty(); }

  async::Task<Message> Take() {
    while (messages_.empty()) {
      arrival_.emplace(loop_);
      (void)co_await arrival_->Wait();
      arrival_.reset();
    }
    Message first = std::move(messages_.front());
    messages_.pop_front();
    co_return std::move(first);
  }

 private:
  static constexpr size_t kMaxWaiting = 65536;

  async::Loop& loop_;
  std::deque<Message> messages_;
  std::optional<async::Event> arrival_;
};

}  // namespace cella::cli
