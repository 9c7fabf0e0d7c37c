#include "jail/seccomp_policy/compile.h"

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <seccomp.h>

#include <cstddef>
#include <map>
#include <stdexcept>

namespace cella::jail::policy {
namespace {

// What a range of system call numbers leads to: a plain action, or a block of argument checks.
struct Leaf {
  Action action = 0;
  const Rule* checked = nullptr;
  bool operator==(const Leaf&) const = default;
};

struct Range {
  uint32_t first = 0;
  Leaf leaf;
};

// Numbers that libseccomp 2.5.4 is too old to know; the same on every architecture.
const std::map<std::string, int>& NewNumbers() {
  static const std::map<std::string, int> numbers = {
      {"cachestat", 451},     {"fchmodat2", 452}, {"map_shadow_stack", 453}, {"futex_wake", 454}, {"futex_wait", 455},
      {"futex_requeue", 456}, {"mseal", 462}};
  return numbers;
}

class Emitter {
 public:
  Emitter(const Policy& policy, const Architecture& architecture) : architecture_(architecture) {
    std::map<uint32_t, Leaf> by_number;
    for (const Rule& rule : policy.rules) {
      int number = seccomp_syscall_resolve_name_arch(architecture.scmp, rule.syscall.c_str());
      if (number < 0) {
        auto known = NewNumbers().find(rule.syscall);
        number = known == NewNumbers().end() ? -1 : known->second;
      }
      if (number < 0) {
        unknown_.push_back(rule.syscall);
        continue;
      }
      Leaf leaf = rule.checks.empty() ? Leaf{rule.otherwise, nullptr} : Leaf{0, &rule};
      if (!by_number.emplace(static_cast<uint32_t>(number), leaf).second) {
        throw std::logic_error("two rules for " + rule.syscall);
      }
    }
    const Leaf unnamed{policy.unnamed, nullptr};
    ranges_.push_back({0, unnamed});
    for (const auto& [number, leaf] : by_number) {
      Append(number, leaf);
      Append(number + 1, unnamed);
    }
  }

  Compiled Emit() {
    Load(offsetof(seccomp_data, arch));
    Jump(BPF_JEQ, architecture_.audit, 1, 0);
    Return(SECCOMP_RET_KILL_PROCESS);
    Load(offsetof(seccomp_data, nr));
    if (architecture_.has_x32) {
      Jump(BPF_JGE, 0x40000000, 0, 1);
      Return(SECCOMP_RET_KILL_PROCESS);
    }
    Search(0, ranges_.size());
    return {std::move(program_), std::move(unknown_)};
  }

 private:
  void Append(uint32_t first, const Leaf& leaf) {
    if (ranges_.back().first == first) ranges_.pop_back();
    if (ranges_.empty() || ranges_.back().leaf != leaf) ranges_.push_back({first, leaf});
  }

  void Load(size_t offset) { program_.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset))); }
  void Return(Action action) { program_.push_back(BPF_STMT(BPF_RET | BPF_K, action)); }
  void Jump(uint16_t test, uint32_t value, uint8_t if_true, uint8_t if_false) {
    program_.push_back(BPF_JUMP(static_cast<uint16_t>(BPF_JMP | test | BPF_K), value, if_true, if_false));
  }

  // Numbers below ranges_[middle] continue in place, the others jump. A conditional jump reaches only 255 instructions:
  // a far one goes through an unconditional jump. Only that one, since the kernel compiles each filter that is
  // installed and walks through it for each number, while a session waits.
  void Search(size_t low, size_t high) {
    if (high - low == 1) {
      EmitLeaf(ranges_[low].leaf);
      return;
    }
    constexpr size_t kFarthest = 255;
    const size_t middle = (low + high) / 2, test = program_.size();
    Jump(BPF_JGE, ranges_[middle].first, 0, 0);
    Search(low, middle);
    const size_t skipped = program_.size() - test - 1;
    if (skipped <= kFarthest) {
      program_[test].jt = static_cast<uint8_t>(skipped);
    } else {
      program_[test].jf = 1;
      program_.insert(program_.begin() + static_cast<ptrdiff_t>(test) + 1,
                      BPF_STMT(BPF_JMP | BPF_JA, static_cast<uint32_t>(skipped)));
    }
    Search(middle, high);
  }

  void EmitLeaf(const Leaf& leaf) {
    if (leaf.checked == nullptr) {
      Return(leaf.action);
      return;
    }
    for (const Check& check : leaf.checked->checks) EmitCheck(check);
    Return(leaf.checked->otherwise);
  }

  void EmitCheck(const Check& check) {
    // Little-endian: the low half of a 64-bit argument comes first.
    Load(offsetof(seccomp_data, args) + static_cast<size_t>(check.argument) * sizeof(uint64_t));
    auto count = static_cast<uint8_t>(check.values.size());
    switch (check.test) {
      case Check::Test::kAnyBit: Jump(BPF_JSET, check.values.at(0), 0, 1); break;
      case Check::Test::kNoBit: Jump(BPF_JSET, check.values.at(0), 1, 0); break;
      case Check::Test::kAllBits:
        program_.push_back(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, check.values.at(0)));
        Jump(BPF_JEQ, check.values.at(0), 0, 1);
        break;
      case Check::Test::kIn:  // a hit jumps to the return behind the list, a miss skips it
        for (uint8_t i = 0; i < count; ++i) {
          Jump(BPF_JEQ, check.values[i], static_cast<uint8_t>(count - i - 1), i + 1 == count ? 1 : 0);
        }
        break;
      case Check::Test::kNotIn:  // a hit skips the return behind the list
        for (uint8_t i = 0; i < count; ++i) Jump(BPF_JEQ, check.values[i], static_cast<uint8_t>(count - i), 0);
        break;
    }
    Return(check.then);
  }

  Architecture architecture_;
  std::vector<Range> ranges_;
  std::vector<sock_filter> program_;
  std::vector<std::string> unknown_;
};

}  // namespace

Architecture NativeArchitecture() {
#if defined(__x86_64__)
  return {SCMP_ARCH_X86_64, AUDIT_ARCH_X86_64, true};
#elif defined(__aarch64__)
  return {SCMP_ARCH_AARCH64, AUDIT_ARCH_AARCH64, false};
#else
#error "Cella runs on x86-64 and arm64"
#endif
}

Compiled Compile(const Policy& policy, const Architecture& architecture) {
  return Emitter(policy, architecture).Emit();
}

}  // namespace cella::jail::policy
