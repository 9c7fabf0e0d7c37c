// The way onto the loop from other threads.
#pragma once

#include <functional>

#include "async/task.h"

namespace cella::async {

// Calls `work` on the loop's thread, in the order of the posts. Any thread; the loop outlives the call. What is posted
// after the loop's task has ended is never called.
void Post(Loop& loop, std::function<void()> work);

}  // namespace cella::async
