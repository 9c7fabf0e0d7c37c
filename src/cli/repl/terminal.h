// The terminal behind our standard input, in raw mode while this lives: keys arrive one by one, and Ctrl-C is a key and
// not a signal that would reach every process of our group. Output is still cooked (\n is a new line).
#pragma once

#include <termios.h>

#include <memory>
#include <string_view>

#include "async/descriptor.h"
#include "cli/output_sinks.h"
#include "cli/repl/mailbox.h"
#include "cli/repl/screen.h"

namespace cella::cli {

class Terminal {
 public:
  static Result<std::unique_ptr<Terminal>> Open(async::Loop& loop);
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal() { Restore(); }

  ScreenSize size() const;
  async::Task<bool> Write(std::string_view bytes) { return out_.Write(bytes); }

  // Keys, until the terminal is gone (which is posted) or this is cancelled.
  async::Task<void> ReadKeys(Mailbox& mailbox);

  // True when we are in front and the modes are no longer ours.
  bool WasChanged() const;
  // Takes the modes that it finds as those to restore.
  void EnterRawMode();
  void Restore();
  // Stops this process as Ctrl-Z does elsewhere; returns when it is continued (SIGCONT).
  void Suspend();

 private:
  Terminal(async::Loop& loop, async::Opened in);

  async::Descriptor in_;
  OwnOutput out_;
  KeyDecoder decoder_;
  termios saved_{};
  bool raw_ = false;
};

}  // namespace cella::cli
