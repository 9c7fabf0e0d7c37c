// Opening a connection as a client. Internal to http.
#pragma once

#include "async/task.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "http/address.h"

namespace cella::http {

// A connected, non-blocking socket. Names are resolved by a thread of the loop's, so no other task waits. The caller
// has the deadline. Errors keep the errno of the last address that was tried.
async::Task<Result<UniqueFd>> Connect(async::Loop& loop, const Address& address);

}  // namespace cella::http
