"""Parts of the kernel that a guest has no use for, and that have a history."""

from case import FILTER, NEEDS_HOST_ROOT, Case

EPERM = ("EPERM",)
DISABLED_FOR_USERS = "distributions switch it off for ordinary users by sysctl"
ADDR_NO_RANDOMIZE, READ_IMPLIES_EXEC, ADDR_COMPAT_LAYOUT, MMAP_PAGE_ZERO = "0x40000", "0x400000", "0x200000", "0x100000"

CASES = [
    *(Case(f"io-uring-{what}", "operations that no filter sees", "io_uring", ("ENOSYS",), FILTER, (what,))
      for what in ("setup", "enter", "register")),
    Case("bpf", "programs in the kernel", "bpf", EPERM, FILTER, share=("user",), root_only=DISABLED_FOR_USERS),
    Case("perf", "performance counters", "perf", EPERM, FILTER, share=("user",), root_only=DISABLED_FOR_USERS),
    Case("userfaultfd", "stopping the kernel at a page fault", "userfaultfd", EPERM, FILTER, may_be_unbuilt=True),
    *(Case(call.replace("_", "-"), "key rings, which no namespace separates", "keyring", EPERM, FILTER, (call,),
           may_be_unbuilt=True) for call in ("keyctl", "add_key", "request_key")),
    *(Case(call.replace("_", "-"), "memory placement", "memory_policy", EPERM, FILTER, (call,), may_be_unbuilt=True)
      for call in ("set_mempolicy", "mbind", "migrate_pages", "move_pages", "set_mempolicy_home_node")),
    *(Case(call.replace("_", "-"), "code in the kernel", "kernel_code", EPERM, FILTER, (call,), share=("user",),
           root_only=NEEDS_HOST_ROOT, may_be_unbuilt=True)
      for call in ("init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load")),
    Case("reboot", "rebooting", "reboot", EPERM, FILTER),
    *(Case(call, f"machine administration: {call}", "machine_admin", EPERM, FILTER, (call,), share=("user",),
           root_only=NEEDS_HOST_ROOT, may_be_unbuilt=True) for call in ("swapon", "swapoff", "acct", "vhangup")),
    *(Case(call.replace("_", "-"), "disk quotas", "machine_admin", EPERM, FILTER, (call,), may_be_unbuilt=True)
      for call in ("quotactl", "quotactl_fd")),
    *(Case(call, "I/O ports", "io_ports", EPERM, FILTER, (call,), share=("user",), root_only=NEEDS_HOST_ROOT,
           may_be_unbuilt=True, machine="x86_64") for call in ("iopl", "ioperm")),
    Case("modify-ldt", "the local descriptor table", "modify_ldt", EPERM, FILTER, may_be_unbuilt=True,
         machine="x86_64"),
    *(Case(f"personality-{name}", "weaker memory protection", "personality", EPERM, FILTER, (value,))
      for name, value in (("no-randomize", ADDR_NO_RANDOMIZE), ("read-exec", READ_IMPLIES_EXEC),
                          ("compat-layout", ADDR_COMPAT_LAYOUT), ("page-zero", MMAP_PAGE_ZERO),
                          # The kernel takes an unsigned int and ignores the upper half of the register.
                          ("high-bits", "0x100040000"))),
    *(Case(call.replace("_", "-"), "the machine's clock", "set_clock", EPERM, FILTER, (call,))
      for call in ("clock_settime", "settimeofday")),
    *(Case(call.replace("_", "-"), "the machine's clock", "set_clock", EPERM, FILTER, (call,), share=("user",),
           root_only=NEEDS_HOST_ROOT) for call in ("adjtimex", "clock_adjtime")),
    # The filter knows one table of numbers; another ABI is another table, and ends the guest.
    Case("int80", "the 32-bit ABI", "foreign_abi", ("signal SIGSYS",), FILTER, ("int80",), may_be_unbuilt=True,
         machine="x86_64"),
    Case("x32", "the x32 ABI", "foreign_abi", ("signal SIGSYS",), FILTER, ("x32",), may_be_unbuilt=True,
         machine="x86_64"),
]
