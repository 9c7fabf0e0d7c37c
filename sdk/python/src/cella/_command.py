"""The `cella` command of an environment: the program itself, in this process."""

from __future__ import annotations

import os
import sys


def main() -> int:
    from cella._programs import find_program
    from cella.errors import ProgramNotFound

    try:
        program = find_program()
        sys.stdout.flush()
        os.execv(program, ["cella", *sys.argv[1:]])
    except (ProgramNotFound, OSError) as error:
        print(f"cella: {error}", file=sys.stderr)
    return 126


if __name__ == "__main__":
    sys.exit(main())
