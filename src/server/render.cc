#include "server/render.h"

#include "run/event_queue.h"
#include "session/json.h"

namespace cella::server {
namespace {

// Rendered in a fraction of a millisecond.
constexpr size_t kRenderAtOnce = size_t{64} << 10;

size_t SizeOf(const RunResult& result) {
  size_t size = result.stdout_text.size() + result.stderr_text.size() + result.files.size() * sizeof(FileChange);
  if (result.value) size += result.value->size();
  if (const auto& error = result.outcome.error) size += error->message.size() + error->traceback.size();
  for (const MimeBundle& output : result.outputs) size += SizeOf(output);
  return size;
}

// On the pool, or here where the pool has no room: the work is bounded, and the text is owed.
template <typename Render>
async::Task<std::string> OnPool(async::BlockingPool& pool, Render render) {
  auto work = [&render]() -> Result<std::string> { return render(); };
  auto text = co_await pool.Run(work);
  if (text) co_return std::move(*text);
  co_return render();
}

}  // namespace

async::Task<std::string> RenderResult(async::BlockingPool& pool, const RunResult& result) {
  if (SizeOf(result) <= kRenderAtOnce) co_return session::ToJson(result);
  auto render = [&result] { return session::ToJson(result); };
  co_return co_await OnPool(pool, render);
}

async::Task<std::string> RenderEvent(async::BlockingPool& pool, session::EventEncoder& encoder, const Event& event) {
  if (run::SizeOf(event) <= kRenderAtOnce) co_return encoder.Encode(event);
  auto render = [&] { return encoder.Encode(event); };
  co_return co_await OnPool(pool, render);
}

}  // namespace cella::server
