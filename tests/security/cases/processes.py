"""Other processes: PID 1, the processes of the host, and what can be done to either."""

from case import FILTER, INIT, NAMESPACE, NEEDS_HOST_ROOT, Case

SIGNALS = ("SIGKILL", "SIGSTOP", "SIGTERM")
# PID 1 belongs to another uid (EPERM), or drops what it has no handler for (ignored).
UNMOVED = ("EPERM", "ignored")
UNREADABLE = ("EACCES", "EPERM")

CASES = [
    *(Case(f"ptrace-{how}", f"tracing a child: {how}", "ptrace_child", ("EPERM",), FILTER, (how,))
      for how in ("attach", "seize", "traceme")),
    Case("ptrace-init", "tracing PID 1", "ptrace_init", ("EPERM",), FILTER),
    Case("read-init-memory", "reading PID 1", "process_vm", ("EPERM",), FILTER, ("process_vm_readv",)),
    Case("write-init-memory", "writing PID 1", "process_vm", ("EPERM",), FILTER, ("process_vm_writev",)),
    Case("steal-init-descriptor", "taking a descriptor of PID 1", "pidfd_getfd", ("EPERM",), FILTER),
    Case("kcmp-init", "comparing kernel objects with PID 1", "kcmp", ("EPERM",), FILTER, may_be_unbuilt=True),
    Case("page-out-init", "paging out PID 1", "process_madvise", ("EPERM", "EACCES", "ENOSYS"), FILTER,
         share=("user",), root_only=NEEDS_HOST_ROOT),
    *(Case(f"init-{name}", f"/proc/1/{name}", "init_proc_file", UNREADABLE, INIT, (name,))
      for name in ("mem", "environ", "root", "fd", "maps", "cwd", "exe", "auxv", "io", "syscall", "map_files")),
    *(Case(f"init-write-{name}", f"/proc/1/{name} for writing", "init_proc_write", UNREADABLE, INIT, (name,))
      for name in ("oom_score_adj", "coredump_filter", "mem", "clear_refs")),
    *(Case(f"{name.lower()}-init", f"{name} to PID 1", "signal_process", UNMOVED, INIT, ("kill", name, "1"),
           control_args=("kill", name, "{victim}"), share=("pid",), victims=("process",)) for name in SIGNALS),
    *(Case(f"{method}-init", f"a signal to PID 1 by {method}", "signal_process", UNMOVED, INIT,
           (method, "SIGKILL", "1"), control_args=(method, "SIGKILL", "{victim}"), share=("pid",),
           victims=("process",))
      for method in ("pidfd", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "sigio")),
    Case("pidfd-stop-init", "stopping PID 1 by pidfd", "signal_process", UNMOVED, INIT, ("pidfd", "SIGSTOP", "1"),
         control_args=("pidfd", "SIGSTOP", "{victim}"), share=("pid",), victims=("process",)),
    Case("kill-all", "killing all that is visible", "signal_all", ("ESRCH", "nobody"), NAMESPACE,
         victims=("process",), control=(("sibling", True),)),
    Case("kill-outside", "killing a process of the host", "signal_process", ("ESRCH",), NAMESPACE,
         ("kill", "SIGKILL", "{victim}"), share=("pid",), victims=("process",)),
    Case("pidfd-outside", "opening a process of the host", "signal_process", ("ESRCH",), NAMESPACE,
         ("pidfd", "SIGKILL", "{victim}"), share=("pid",), victims=("process",)),
    Case("scan-pids", "seeing processes of the host", "scan_pids", ("nothing found",), NAMESPACE, share=("pid",),
         victims=("process",)),
    *(Case(f"renice-init-by-{how}", f"slowing PID 1 down, by {how}", "renice",
           ("EPERM", "EACCES", "ESRCH", "unchanged"), INIT, (how,)) for how in ("process", "group", "user")),
    *(Case(f"{call.replace('_', '-')}-init", f"rescheduling PID 1: {call}", "reschedule", ("EPERM",), INIT, (call,))
      for call in ("sched_setscheduler", "sched_setparam", "sched_setattr", "sched_setaffinity", "ioprio_set")),
    Case("prlimit-read-init", "reading a limit of PID 1", "prlimit_init", ("EPERM",), INIT, ("read",)),
    Case("prlimit-write-init", "lowering a limit of PID 1", "prlimit_init", ("EPERM",), INIT, ("write",)),
]
