// What a file probably is, by the end of its name: for Content-Type and listings. A guess of ours, never a promise
// about bytes that a guest wrote; who serves them also says "nosniff".
#pragma once

#include <string_view>

namespace cella::workspace {

// "image/png"; "application/octet-stream" when the name says nothing.
std::string_view MediaTypeOf(std::string_view path);

}  // namespace cella::workspace
