// The system call policy of a jail, as data: an ordered list of checks per system call, everything unnamed is refused.
// compile.cc turns it into BPF when Cella is built; nothing of this is linked into the programs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cella::jail::policy {

// A seccomp return value: SECCOMP_RET_ALLOW, or SECCOMP_RET_ERRNO | errno, or SECCOMP_RET_KILL_PROCESS.
using Action = uint32_t;

// One look at the low 32 bits of an argument. The kernel truncates these arguments to 32 bits itself, so comparing all
// 64 would let a caller hide behind the upper half.
struct Check {
  enum class Test { kIn, kNotIn, kAnyBit, kNoBit, kAllBits };
  int argument = 0;
  Test test = Test::kIn;
  std::vector<uint32_t> values;  // kIn, kNotIn: the set; the others: one mask
  Action then = 0;
};

struct Rule {
  std::string syscall;
  std::vector<Check> checks;  // the first that holds decides
  Action otherwise = 0;
};

struct Policy {
  std::string name;
  std::vector<Rule> rules;
  Action unnamed = 0;  // a system call without a rule
};

// The policy of every guest.
Policy DefaultPolicy();

// The same with the one call by which a zygote's newborn enters its jail. Each newborn inherits it, and then loads the
// policy of guests on top.
Policy ZygotePolicy();

// The same as the default without the calls that hold memory which only a memory cgroup could count.
Policy StrictMemoryPolicy();

}  // namespace cella::jail::policy
