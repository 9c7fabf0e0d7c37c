// Build tool: writes the compiled policies as C++ tables to standard output.
#include <cstdio>

#include "jail/seccomp_policy/compile.h"

int main() {
  using namespace cella::jail::policy;
  std::puts("// Generated from jail/seccomp_policy/policy.cc. Do not edit.");
  for (const Policy& policy : {DefaultPolicy(), StrictMemoryPolicy(), ZygotePolicy()}) {
    Compiled compiled = Compile(policy, NativeArchitecture());
    std::printf("inline constexpr sock_filter k%sFilter[] = {\n", policy.name.c_str());
    for (const sock_filter& op : compiled.program) {
      std::printf("    {0x%02x, %u, %u, 0x%08x},\n", op.code, op.jt, op.jf, op.k);
    }
    std::puts("};");
  }
  return 0;
}
