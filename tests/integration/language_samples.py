"""One program per language that says hello with its first argument, echoes its standard input, and exits with 7 when
the argument is `fail`; and one that no compiler or interpreter accepts."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sample:
    tools: tuple  # any of these will do
    code: str
    broken: str
    complaint: str  # in what the tool says about the broken one
    needs: tuple = ()
    hint: str = "apt install"


SAMPLES = {
    "python": Sample(
        ("python3",),
        "import sys\nprint('hello', sys.argv[1])\nprint(sys.stdin.read(), end='')\n"
        "sys.exit(7 * (sys.argv[1] == 'fail'))",
        "def f(:",
        "SyntaxError",
    ),
    "bash": Sample(("bash",), 'a=(x); echo "hello $1"; cat; [[ $1 != fail ]] || exit 7', "done", "syntax error"),
    "sh": Sample(("sh",), 'echo "hello $1"; cat; [ "$1" != fail ] || exit 7', "if then", "yntax error"),
    "javascript": Sample(
        ("node",),
        "console.log('hello', process.argv[2]);\nprocess.stdout.write(require('fs').readFileSync(0));\n"
        "process.exitCode = process.argv[2] === 'fail' ? 7 : 0;",
        "let x = ;",
        "SyntaxError",
    ),
    "c": Sample(
        ("cc", "gcc", "clang"),
        "#include <math.h>\n#include <stdio.h>\n#include <string.h>\nint main(int n, char** a) {\n"
        '  printf("hello %s\\n", a[1]);\n  int c; while ((c = getchar()) != EOF) putchar(c);\n'
        '  return strcmp(a[1], "fail") ? 0 : (int)sqrt(49.0 * n / n);\n}',
        "int main() { return undeclared; }",
        "undeclared",
    ),
    "cpp": Sample(
        ("c++", "g++", "clang++"),
        "#include <iostream>\n#include <string_view>\n#include <thread>\nint main(int, char** a) {\n"
        '  std::jthread([&] { std::cout << "hello " << a[1] << std::endl; }).join();\n'
        '  std::cout << std::cin.rdbuf();\n  return std::string_view(a[1]) == "fail" ? 7 : 0;\n}',
        "int main() { return undeclared; }",
        "undeclared",
    ),
    "go": Sample(
        ("go",),
        'package main\n\nimport (\n\t"io"\n\t"os"\n)\n\nfunc main() {\n'
        '\tos.Stdout.WriteString("hello " + os.Args[1] + "\\n")\n'
        '\tio.Copy(os.Stdout, os.Stdin)\n\tif os.Args[1] == "fail" {\n\t\tos.Exit(7)\n\t}\n}\n',
        'package main\nimport "nowhere/at/all"\nfunc main() { all.Go() }',
        "nowhere/at/all",
    ),
    "rust": Sample(
        ("rustc",),
        "use std::io::Read;\nfn main() {\n  let name = std::env::args().nth(1).unwrap();\n"
        "  let mut text = String::new();\n"
        '  std::io::stdin().read_to_string(&mut text).unwrap();\n  print!("hello {}\\n{}", name, text);\n'
        '  if name == "fail" { std::process::exit(7) }\n}',
        "fn main() { undeclared() }",
        "cannot find function",
        needs=("cc",),
    ),
    "java": Sample(
        ("java",),
        "public class Main {\n  public static void main(String[] a) throws Exception {\n"
        '    System.out.println("hello " + a[0]);\n    System.in.transferTo(System.out);\n    System.out.flush();\n'
        '    if (a[0].equals("fail")) System.exit(7);\n  }\n}',
        "public class Main { public static void main(String[] a) { undeclared(); } }",
        "cannot find symbol",
        needs=("javac",),
    ),
    "ruby": Sample(
        ("ruby",), "puts \"hello #{ARGV[0]}\"\nprint STDIN.read\nexit 7 if ARGV[0] == 'fail'", "def (", "syntax error"
    ),
    "perl": Sample(
        ("perl",),
        'print "hello $ARGV[0]\\n";\nprint while <STDIN>;\nexit($ARGV[0] eq "fail" ? 7 : 0);',
        "if (",
        "syntax error",
    ),
    "php": Sample(
        ("php",),
        "<?php\necho \"hello $argv[1]\\n\";\necho stream_get_contents(STDIN);\nexit($argv[1] == 'fail' ? 7 : 0);",
        "<?php\n$x = ;",
        "Parse error",
    ),
    "lua": Sample(
        ("lua", "lua5.4", "lua5.3", "luajit"),
        "print('hello ' .. arg[1])\nio.write(io.read('a'))\nif arg[1] == 'fail' then os.exit(7) end",
        "x = = 1",
        "unexpected symbol",
    ),
    "r": Sample(
        ("Rscript",),
        "a <- commandArgs(trailingOnly = TRUE)\ncat('hello', a[1], '\\n', sep = c(' ', '', ''))\n"
        "cat(readLines(file('stdin')), sep = '\\n')\ncat('\\n')\nif (a[1] == 'fail') quit(status = 7)",
        "x <- <- 1",
        "unexpected",
    ),
}
