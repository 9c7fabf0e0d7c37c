// The files of a session for the library, in pieces that leave the loop to others in between. On the loop.
#pragma once

#include <string>

#include "async/task.h"
#include "base/result.h"
#include "session/session.h"

struct cella_listing;

namespace cella::library {

async::Task<Result<std::string>> ReadFile(session::Session& session, std::string path);
async::Task<Status> WriteFile(session::Session& session, std::string path, std::string content);
async::Task<Status> RemoveFile(session::Session& session, std::string path);
// Bounded: what is beyond is reported as an incomplete listing.
async::Task<Result<cella_listing>> ListFiles(session::Session& session, std::string path);

}  // namespace cella::library
