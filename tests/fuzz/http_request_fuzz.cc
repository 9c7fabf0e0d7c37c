#include <cstddef>
#include <cstdint>

#include "http_request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  cella::http::FeedConnection({reinterpret_cast<const char*>(data), size});
  return 0;
}
