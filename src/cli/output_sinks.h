// How `cella run` shows a run: the program's own output passed through, or one line of JSON per event.
#pragma once

#include <optional>
#include <string>

#include "async/descriptor.h"
#include "run/output.h"
#include "session/json.h"

namespace cella::cli {

// Our own standard output or error, shared with the process that started us. Remembers that its reader went away.
class OwnOutput {
 public:
  OwnOutput(async::Loop& loop, int fd);
  // False when the reader is gone.
  async::Task<bool> Write(std::string_view bytes);
  bool closed() const { return closed_; }
  const std::string& failure() const { return failure_; }

 private:
  std::optional<async::Descriptor> descriptor_;
  bool closed_ = false;
  std::string failure_;
};

class PlainSink : public run::EventSink {
 public:
  PlainSink(OwnOutput& out, OwnOutput& err) : out_(out), err_(err) {}
  async::Task<bool> Emit(Event event) override;
  bool independent_streams() const override { return true; }
  const Isolation& isolation() const { return isolation_; }
  // The error of the code was written.
  bool shows_error() const { return shows_error_; }

 private:
  OwnOutput& out_;
  OwnOutput& err_;
  Isolation isolation_;
  bool shows_error_ = false;
};

class NdjsonSink : public run::EventSink {
 public:
  NdjsonSink(OwnOutput& out, std::string run_id) : out_(out), encoder_(std::move(run_id)) {}
  async::Task<bool> Emit(Event event) override;

 private:
  async::Task<bool> WriteLine(std::string line);

  OwnOutput& out_;
  session::EventEncoder encoder_;
};

}  // namespace cella::cli
