"""Who is who below a `cella repl` in the sandbox: the maker of jails, the jail's init, the zygote, its guests."""

from support.descendants import Family

ZYGOTE = b"--zygote"


class SessionTree:
    def __init__(self, pid):
        self.family = Family(pid)
        below = self.family.children
        makers = [child for child in below(pid) if any(ZYGOTE in self.family.words[entry] for entry in below(child))]
        assert len(makers) == 1, f"no maker below {pid}: {self.family.words}"
        self.maker = makers[0]
        # A guest has the zygote's command line: it is its fork.
        self.zygotes = [child for child in below(self.maker) if ZYGOTE in self.family.words[child]]
        self.inits = [child for child in below(self.maker) if ZYGOTE not in self.family.words[child]]
        self.guests = [guest for zygote in self.zygotes for guest in below(zygote)]
