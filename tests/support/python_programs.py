"""Programs that must print and return the same from a fork of the zygote as from `python3 program.py`.

Each is (arguments, standard input or None, source, other files). `{other}` files lie beside the program.
"""

import re
from typing import NamedTuple, Optional


class Program(NamedTuple):
    source: str  # as a file has it: surrogate escapes are bytes that are not UTF-8
    args: tuple = ()
    stdin: Optional[str] = None
    files: dict = {}


def without_addresses(text):
    return re.sub(r"0x[0-9a-f]+", "0x", text)


PROGRAMS = {
    "arguments": Program(
        "import sys, os\nprint(sys.argv[1:], os.path.basename(sys.argv[0]))\n"
        "print(os.path.basename(__file__), os.path.dirname(os.path.abspath(__file__)) == sys.path[0] == os.getcwd())",
        args=("a", "b c", "", "--flag=é", "*"),
    ),
    "namespace": Program(
        '"""The text."""\nprint([name for name in globals()])\n'
        "print(__name__, __doc__, __package__, __spec__, __cached__, type(__loader__).__name__, __builtins__)\n"
        "import __main__\nprint(__main__.__dict__ is globals(), __main__)\n"
        "print([name for name in ('display', 'update_display', 'clear_output', '_', '__cella__') if name in dir(__builtins__)])\n"
        "print(input, __import__('threading').Thread.start.__module__)",
    ),
    "exit code": Program("import sys\nprint('out')\nsys.exit(7)"),
    "exit with text": Program("raise SystemExit('a reason')"),
    "exit with a large number": Program("import sys\nsys.exit(256 + 3)"),
    "exit with a negative number": Program("import sys\nsys.exit(-1)"),
    "exit with None": Program("raise SystemExit"),
    "exit at once": Program("import os, sys\nprint('lost', end='')\nos._exit(9)"),
    "killed by a signal": Program("import os, signal\nprint('x', flush=True)\nos.kill(os.getpid(), signal.SIGTERM)"),
    "abort": Program("import os\nos.abort()"),
    "uncaught interrupt": Program("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nimport time\ntime.sleep(5)"),
    "atexit": Program(
        "import atexit, sys\n"
        "atexit.register(print, 'first registered')\n"
        "@atexit.register\ndef last():\n    print('last registered', file=sys.stderr)\n    1 / 0\n"
        "class Late:\n    def __del__(self): print('deleted', sys is not None)\n"
        "late = Late()\nprint('end of main')",
    ),
    "objects of the module at the end": Program(
        "class Noisy:\n    def __init__(self, n): self.n = n\n    def __del__(self): print('del', self.n)\n"
        "a = Noisy(1)\n_b = Noisy(2)\ncycle = [Noisy(3)]; cycle.append(cycle)\n"
        "def function(): return a\nprint('end')",
    ),
    "objects of an imported module at the end": Program(
        "import helper\nprint(helper.value.n)",
        files={"helper.py": "class Noisy:\n    n = 5\n    def __del__(self): print('del helper')\nvalue = Noisy()\n"},
    ),
    "threads": Program(
        "import threading, time\n"
        "def work():\n    time.sleep(0.2)\n    print('thread', threading.current_thread().name)\n"
        "threading.Thread(target=work).start()\n"
        "threading.Thread(target=lambda: time.sleep(60), daemon=True).start()\n"
        "print('main', threading.current_thread().name, threading.active_count())",
    ),
    "exception in a thread": Program(
        "import threading\nthread = threading.Thread(target=lambda: [][1])\nthread.start()\nthread.join()\nprint('goes on')"
    ),
    "multiprocessing by fork": Program(
        "import multiprocessing, os\n"
        "def square(n): return n * n\n"
        "if __name__ == '__main__':\n"
        "    context = multiprocessing.get_context('fork')\n"
        "    with context.Pool(2) as pool: print(pool.map(square, range(5)))\n"
        "    process = context.Process(target=os._exit, args=(4,)); process.start(); process.join(); print(process.exitcode)",
    ),
    "multiprocessing by spawn": Program(
        "import multiprocessing\n"
        "def square(n): return n * n\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool: print(pool.map(square, [3]))",
    ),
    "executors": Program(
        "from concurrent.futures import ThreadPoolExecutor, ProcessPoolExecutor\nimport multiprocessing\n"
        "def f(n): return n + 1\n"
        "with ThreadPoolExecutor(2) as pool: print(list(pool.map(f, range(3))))\n"
        "with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context('fork')) as pool: print(list(pool.map(f, [7])))",
    ),
    "fork": Program(
        "import os, sys\npid = os.fork()\nif pid == 0:\n    print('child', flush=True)\n    sys.exit(5)\n"
        "print(os.WEXITSTATUS(os.waitpid(pid, 0)[1]))",
    ),
    "standard input by lines": Program(
        "import sys\nfirst = input()\nprint(repr(first))\nfor line in sys.stdin: print(repr(line))\n"
        "try:\n    input('prompt> ')\nexcept EOFError as error: print('EOF', error)",
        stdin="one\ntwo\r\nthree é \ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
    ),
    "standard input as bytes": Program(
        "import sys, os\nprint(sys.stdin.buffer.read(3), os.read(0, 100), sys.stdin.read(), sys.stdin.isatty(), sys.stdin.fileno())",
        stdin="abcdef",
    ),
    "standard input of a child": Program(
        "import subprocess\nprint(subprocess.run(['cat'], capture_output=True).stdout)", stdin="for the child\n"
    ),
    "no standard input": Program("import sys\nprint(repr(sys.stdin.read()))\ninput()"),
    "large standard input": Program("import sys\nprint(len(sys.stdin.read()))", stdin="x" * 300_000 + "\n"),
    "streams": Program(
        "import sys\n"
        "for s in (sys.stdin, sys.stdout, sys.stderr):\n"
        "    print(s.name, s.mode, s.encoding, s.errors, s.newlines, s.line_buffering, s.write_through, s.fileno(), s.isatty(), s.closed)\n"
        "    print(type(s).__name__, type(s.buffer).__name__, type(s.buffer.raw).__name__, s.buffer.name, s.buffer.mode)\n"
        "print(sys.stdout is sys.__stdout__, sys.stdin is sys.__stdin__, repr(sys.stdout))\n"
        "sys.stdout.write('no end of line')\nsys.stderr.write('nor here')",
        stdin="",
    ),
    "order of the streams of Python, C and children": Program(
        "import sys, os, ctypes, subprocess\nprint('python')\nctypes.CDLL(None).printf(b'C\\n')\n"
        "os.write(1, b'write\\n')\nsubprocess.run(['echo', 'child'])\nprint('again')",
    ),
    "text that is not UTF-8": Program("import sys\nprint('a\\udcffb')\nsys.stderr.write('c\\ud800d\\n')\nprint('\\ud800')"),
    "closed standard output": Program("import sys\nprint('x')\nsys.stdout.close()\nsys.stderr.write('still here\\n')"),
    "lost standard output": Program("import os\nprint('x')\nos.close(1)"),
    "uncaught exception": Program(
        "def inner(n):\n    return 1 / n\n\ndef outer():\n    try:\n        inner(0)\n    except ZeroDivisionError as error:\n"
        "        raise ValueError('outer') from error\n\nprint('before')\nouter()",
    ),
    "uncaught exception in an imported module": Program("import helper", files={"helper.py": "x = 1\nraise KeyError('in helper')\n"}),
    "deep recursion": Program("def f(n): return f(n + 1)\ntry:\n    f(0)\nexcept RecursionError as error: print(error)\nf(0)"),
    "exception group and notes": Program(
        "import sys\nif sys.version_info >= (3, 11):\n    error = ExceptionGroup('several', [ValueError(1), TypeError(2)])\n"
        "    error.add_note('a note')\n    raise error\nraise ValueError('alone')",
    ),
    "excepthook": Program("import sys\nsys.excepthook = lambda *a: print('hook', a[0].__name__, a[2].tb_lineno)\n1 / 0"),
    "excepthook that fails": Program("import sys\ndef hook(*a): raise TypeError('in the hook')\nsys.excepthook = hook\n1 / 0"),
    "syntax error": Program("print('never')\nif True\n    pass\n"),
    "indentation error": Program("def f():\nreturn 1\n"),
    "syntax error in a string": Program("x = 'é' + (\ny = 1\n"),
    "warnings": Program(
        "import warnings\ndef f(): warnings.warn('from f', DeprecationWarning, stacklevel=2)\nf()\nf()\n"
        "warnings.warn('plain')\nwarnings.warn('plain')\nprint(1 is 1)\nassert (1, 'always')\nprint('\\d')",
    ),
    "resource warning is silent": Program("open(__file__)\nprint('quiet')"),
    "pickling of __main__": Program(
        "import pickle, dataclasses, enum\n@dataclasses.dataclass\nclass Point:\n    x: int\nclass Color(enum.Enum):\n    RED = 1\n"
        "print(pickle.loads(pickle.dumps([Point(1), Color.RED])), Point.__module__)",
    ),
    "import beside the program": Program(
        "import helper, package.part\nprint(helper.value, package.part.__name__, helper.__file__.endswith('helper.py'))",
        files={"helper.py": "value = 42\n", "package/__init__.py": "", "package/part.py": ""},
    ),
    "a module that shadows one of the library": Program("import colorsys\nprint(colorsys.mine)", files={"colorsys.py": "mine = 1\n"}),
    "asyncio": Program(
        "import asyncio\nasync def main():\n    print(await asyncio.gather(asyncio.sleep(0.01, 'a'), asyncio.to_thread(str, 1)"
        " if hasattr(asyncio, 'to_thread') else asyncio.sleep(0, '1')))\nasyncio.run(main())",
    ),
    "signals": Program(
        "import signal, os\nprint(signal.getsignal(signal.SIGINT).__name__, signal.getsignal(signal.SIGURG), signal.getsignal(signal.SIGCHLD),\n"
        "      signal.getsignal(signal.SIGPIPE), signal.getsignal(signal.SIGTERM), signal.pthread_sigmask(0, ()))\n"
        "signal.signal(signal.SIGINT, lambda *a: print('handled'))\nos.kill(os.getpid(), signal.SIGINT)\nprint('goes on')",
    ),
    "source and inspection": Program("import inspect\ndef f():\n    return 1  # kept\nprint(inspect.getsource(f))"),
    "logging": Program(
        "import logging\nlogging.warning('to stderr')\nlogging.basicConfig(level='INFO', format='%(filename)s:%(lineno)d %(message)s')\n"
        "logging.info('not configured again')\nlogging.getLogger('x').error('an error')",
    ),
    "temporary files": Program(
        "import tempfile, os\nd = tempfile.TemporaryDirectory()\nf = tempfile.NamedTemporaryFile('w')\nf.write('x')\n"
        "print(os.path.isdir(d.name), f.name.startswith(tempfile.gettempdir()))"
    ),
    "open descriptors": Program("import os\nprint(sorted(int(n) for n in os.listdir('/proc/self/fd'))[:3], len(os.listdir('/proc/self/fd')))"),
    "environment": Program("import os\nprint(sorted(name for name in os.environ if name.startswith('CELLA_TEST')), os.environ.get('LANG'))"),
    "nothing": Program(""),
    "another encoding": Program("# coding: latin-1\nprint('\udce9')\n"),
    "no encoding at all": Program("print('\udcff')\n"),
    "only a comment, with a cookie": Program("# -*- coding: utf-8 -*-\n# é\n"),
}
