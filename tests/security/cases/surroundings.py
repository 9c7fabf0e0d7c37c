"""What the caller has open, set or under its hands: descriptors, environment, terminal, working directory."""

from case import FILTER, INIT, LAUNCH, Case

NOTHING = ("nothing found",)
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
CASES = [
    Case("inherited-descriptor", "a descriptor that the caller leaked", "inherited_fd", NOTHING, LAUNCH,
         ("{leaked_secret}",), victims=("leaked_descriptor",)),
    Case("open-descriptors", "any descriptor beyond the standard three", "open_descriptors", NOTHING, LAUNCH,
         victims=("leaked_descriptor",)),
    Case("environment", "a secret in the caller's environment", "secret_environment", NOTHING, LAUNCH, ("{secret}",),
         victims=("secret_variable",)),
    Case("identity", "the caller's home, name and working directory", "identity_leak", NOTHING, LAUNCH,
         ("{home}", "{user}"), share=("pid",), victims=("identity",)),
    Case("working-directory", "climbing out of an open directory", "leaked_cwd", NOTHING, LAUNCH, ("{secret_file}",),
         victims=("leaked_directory",)),
    Case("input-file", "writing to the file on standard input", "standard_input",
         ("copied", "EACCES", "EPERM", "EROFS"), LAUNCH, victims=("file_as_input",)),
    *(Case(name, "typing into the caller's terminal", "terminal_ioctl", ("EPERM",), FILTER, (hex(request),),
           victims=("controlling_terminal",), may_be_unbuilt=True)
      # The kernel takes an unsigned int: a filter that compares all 64 bits would miss the request.
      for name, request in (("tiocsti", TIOCSTI), ("tiocsti-high-bits", TIOCSTI | 1 << 32),
                            ("tioclinux", TIOCLINUX), ("tioclinux-high-bits", TIOCLINUX | 1 << 32))),
    Case("controlling-terminal", "the caller's terminal", "controlling_terminal", ("ENXIO", "ENOENT", "EACCES", "EIO"),
         LAUNCH, victims=("controlling_terminal",)),
    Case("init-executable", "overwriting the program of PID 1", "init_executable", ("EACCES", "EPERM", "EROFS"), INIT,
         control=(("copied_init", True),)),
]
