// The version of uv that Cella installs with. Its options change between minor versions, so no other is taken.
#pragma once

#include <array>
#include <string_view>

namespace cella::installer {

inline constexpr std::string_view kUvVersion = "0.13.7";

struct PinnedUv {
  std::string_view machine;   // as uname has it
  std::string_view platform;  // of the wheel
  std::string_view sha256;    // of the program in it
};

inline constexpr std::array<PinnedUv, 2> kPinnedUv = {{
    {"x86_64", "manylinux_2_17_x86_64", "4b5e59bc557ff2cd70934beb59d0eaa92820702853d49f0066b50aa11a8f0c52"},
    {"aarch64", "manylinux_2_17_aarch64", "f4752297fa474760b9db6586501db3ee5dd226ce49d9c0c23d6f47930d44f30e"},
}};

}  // namespace cella::installer
