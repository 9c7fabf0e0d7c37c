// What stays of every run, with or without a session: who ran which code, by its hash, how it ended
// and what it used. For the audit and the log.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "async/task.h"
#include "cella/outcome.h"
#include "cella/run.h"
#include "run/host_calls.h"
#include "server/hub.h"

namespace cella::server {

// Of all blocks in order, with their languages.
std::string CodeHash(const std::vector<Block>& blocks);
// The same, of much code on the pool. The blocks are borrowed.
async::Task<std::string> HashCode(async::BlockingPool& pool, const std::vector<Block>& blocks);

// A call of the guest of a session to the host; for session::SessionOptions::on_call.
async::Task<void> RecordCall(Hub& hub, std::string who, std::string session, std::string run,
                             run::HostCallRecord record);

// `action` is the audit's: "run", "run.once", "run.batch".
async::Task<void> RecordRun(Hub& hub, std::string_view action, std::string_view who, const RunResult& result,
                            std::string code_sha256);

}  // namespace cella::server
