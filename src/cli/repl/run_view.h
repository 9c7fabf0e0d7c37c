// Shows the events of a run to a person: output as it comes, the value as Python's own prompt would, displays as text
// or as files, and how it ended when that is worth a line. What goes to a terminal passes the filter for escape
// sequences.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "cli/install_progress.h"
#include "cli/output_sinks.h"
#include "cli/repl/escape_filter.h"
#include "cli/repl/mailbox.h"
#include "cli/repl/saved_outputs.h"
#include "run/output.h"

namespace cella::cli {

class RunView : public run::EventSink {
 public:
  // `mailbox` gets the questions of the code; null: they get no answer.
  RunView(async::Loop& loop, std::string images, Mailbox* mailbox);

  async::Task<bool> Emit(Event event) override;

  // What is on the terminal's line when the guest has not ended it; plain text.
  std::string TakeUnfinishedLine();
  // So that what follows begins on a line of its own.
  async::Task<void> EndLine();

  // On standard error, in the colour of errors.
  async::Task<void> Complain(std::string_view text);
  // Of the bar that events of progress draw.
  async::Task<void> ClearProgress();

  void set_shows_time(bool on) { shows_time_ = on; }
  // Called when the reader of standard output turns out to be gone.
  void set_on_reader_gone(std::function<void()> call) { on_reader_gone_ = std::move(call); }

 private:
  struct Output {
    Output(async::Loop& loop, int fd);
    OwnOutput own;
    bool terminal;
    EscapeFilter filter;
  };

  async::Task<bool> Write(Output& output, std::string_view bytes);
  async::Task<void> Show(const MimeBundle& bundle, std::string_view text);
  std::string Save(const MimeBundle& bundle);
  async::Task<void> Finish(const FinishedEvent& finished);
  void Note(std::string_view written);
  async::Task<void> ShowProgress(std::string_view line);

  Output out_;
  Output err_;
  bool colors_;
  bool shows_time_ = false;
  SavedOutputs saved_;
  Mailbox* mailbox_;
  ProgressBar bar_;
  bool shows_bar_ = false;
  std::string line_;  // on the terminal, not ended
  std::function<void()> on_reader_gone_;
};

// "timeout: …; rolled back to before this run". Empty: nothing to say.
std::string DescribeEnd(const Outcome& outcome, StateAfter state);

}  // namespace cella::cli
