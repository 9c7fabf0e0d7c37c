"""Code in a jail has a tool that works on files which the jail does not show.

    examples/markdown_tool.py [DIRECTORY]

`lint_and_fix_markdown` runs in this program, on this program's files. The code that a model would write calls it by name;
the code sees neither the files nor the function, and has no network and no other way to them.
"""

import asyncio
import pathlib
import re
import sys
import tempfile

import cella

# What a model would have written.
CODE = """
for name in tools.list_markdown():
    report = tools.lint_and_fix_markdown(name)
    print(f"{name}: {report['fixed']} fixed")
import os
print("files of the host in the jail:", os.path.exists(HOST_DIRECTORY))
"""


def fix(text: str) -> tuple[str, int]:
    """Markdown without trailing blanks, with one blank line after headings; and how many lines changed."""
    lines, fixed = [], 0
    for line in text.splitlines():
        clean = re.sub(r"^(#+)([^#\s])", r"\1 \2", line.rstrip())
        fixed += clean != line
        if lines and lines[-1].startswith("#") and clean:
            lines.append("")
            fixed += 1
        lines.append(clean)
    return "\n".join(lines) + "\n", fixed


async def main(directory: pathlib.Path) -> None:
    async with cella.Session() as session:

        @session.tool
        def list_markdown() -> list[str]:
            """Names of the Markdown files."""
            return sorted(path.name for path in directory.glob("*.md"))

        @session.tool
        def lint_and_fix_markdown(path: str) -> dict:
            """Corrects a Markdown file in its place.

            Args:
                path: the name of the file, as `list_markdown` gives it
            """
            # The name comes from code that is not trusted.
            file = directory / path
            if path not in list_markdown() or file.is_symlink():
                raise ValueError(f"{path!r} is not one of the files")
            text, fixed = fix(file.read_text())
            file.write_text(text)
            return {"fixed": fixed}

        result = await session.run(f"HOST_DIRECTORY = {str(directory)!r}\n{CODE}")
        print(result.stdout or result.stderr, end="")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(main(pathlib.Path(sys.argv[1]).resolve()))
    else:
        with tempfile.TemporaryDirectory() as made:
            pathlib.Path(made, "notes.md").write_text("#Notes\nfirst line   \n## More\n\ntext\n")
            asyncio.run(main(pathlib.Path(made).resolve()))
