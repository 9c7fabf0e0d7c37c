// Frames of the call socket (runners/README.md): two 32-bit little-endian lengths, a JSON header, a JSON body.
// Everything that is decoded here comes from inside a guest.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"
#include "run/host_call.h"

namespace cella::calls {

inline constexpr size_t kPrefixBytes = 8;
inline constexpr size_t kMaxHeaderBytes = 4096;
inline constexpr size_t kMaxBodyBytes = size_t{1} << 20;

struct FrameSize {
  size_t header = 0;
  size_t body = 0;
};

// kInvalid: a part is larger than it may be.
Result<FrameSize> DecodePrefix(const std::array<char, kPrefixBytes>& prefix);

// {"space": "tools", "operation": "lookup"}. The body is not looked at. kInvalid: no such header.
Result<run::HostCall> DecodeCall(std::string_view header, std::string body);

// The whole frame. A value that is too large becomes an error.
std::string EncodeReply(run::HostReply reply);

}  // namespace cella::calls
