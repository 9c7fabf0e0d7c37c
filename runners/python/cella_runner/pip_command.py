"""The command `pip` of guests: install, uninstall, list, show, freeze. The host installs; the rest is read here."""

import importlib
import re
import sys

from .calls import HostCallError, render_traceback

USAGE = """Usage: pip COMMAND

  install SPEC... [-r FILE]      add packages to this session; the host fetches them
  uninstall NAME... [-r FILE]    remove packages that the session added
  list [--format=columns|freeze|json]
  show NAME...
  freeze
"""
# They change nothing here: output and caches are the host's, and what is there is kept up to date by it.
_FLAGS = frozenset(
    "-q --quiet -v --verbose -U --upgrade -y --yes --user --no-input --no-color --isolated --no-cache-dir"
    " --disable-pip-version-check --no-warn-script-location --no-warn-conflicts --break-system-packages --prefer-binary"
    " --no-python-version-warning --no-compile --compile -I --ignore-installed --force-reinstall".split()
)
_VALUED = frozenset(
    "--root-user-action --progress-bar --timeout --retries --default-timeout --only-binary --cache-dir"
    " --upgrade-strategy --format --exists-action --log".split()
)
# Without extras, whose packages are not looked for here, and without markers.
_PLAIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*((?:[<>=!~].*)?)$")
_SPECIFIER = re.compile(r"\s*(==|!=|<=|>=|~=|<|>)\s*([A-Za-z0-9.+!_*-]+)\s*$")
_RELEASE = re.compile(r"[0-9]+(\.[0-9]+)*$")


class PipError(Exception):
    """A command line that is not understood, or a package that is not there."""

    __module__ = "builtins"

    def _render_traceback_(self):
        """IPython asks for this."""
        return render_traceback(self)


def main(arguments) -> int:
    """The exit code."""
    try:
        return run(arguments)
    except (HostCallError, PipError) as error:
        complain(error)
        return 1


def complain(error):
    """What is printed of a failure."""
    kind = "" if isinstance(error, PipError) or type(error).__name__ == "DepsError" else type(error).__name__ + ": "
    print("ERROR: %s%s" % (kind, error), file=sys.stderr)


def run(arguments, deps=None) -> int:
    """`deps` is what changes the packages; None: calls to the host do."""
    words, options, files = _parse(list(arguments))
    if "--version" in options or "-V" in options:
        print("pip of Cella (the host installs the packages of this session), Python %d.%d" % sys.version_info[:2])
        return 0
    command = words.pop(0) if words else "help"
    action = _COMMANDS.get(command)
    if command == "help" or "--help" in options or "-h" in options:
        print(USAGE, end="")
        return 0
    if action is None:
        raise PipError("pip %s: there are install, uninstall, list, show and freeze here" % command)
    for path in files:
        words += _read(path)
    return action(words, options, deps)


def _parse(arguments):
    """(words, options, files of requirements)"""
    words, options, files = [], {}, []
    rest = iter(arguments)
    for argument in rest:
        name, equals, value = argument.partition("=")
        if not argument.startswith("-"):
            words.append(argument)
        elif argument in ("-r", "--requirement") or argument.startswith("--requirement="):
            files.append(value if equals else _next(rest, argument))
        elif argument.startswith("-r"):
            files.append(argument[2:])
        elif name in _VALUED:
            options[name] = value if equals else _next(rest, name)
        elif argument in _FLAGS or re.match(r"-[qvUy]+$", argument) or argument in ("--version", "-V", "--help", "-h"):
            options[argument] = True
        else:
            raise PipError("%s: this option is not known here; the host installs packages from its own index" % name)
    return words, options, files


def _next(rest, name):
    for value in rest:
        return value
    raise PipError("%s: needs a value" % name)


def _read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError as error:
        raise PipError("-r %s: %s" % (path, error.strerror)) from None
    lines = re.sub(r"\\\r?\n", "", text).splitlines()
    specs = [re.sub(r"(^|\s)#.*", "", line).strip() for line in lines]
    for spec in specs:
        if spec.startswith("-"):
            raise PipError("-r %s: '%s': only packages are accepted" % (path, spec))
    return [spec for spec in specs if spec]


def _changer(deps):
    """Also in child interpreters, where the name is not installed."""
    from .deps import Deps

    return deps or Deps()


def _installed(name):
    """The version; None: it is not there."""
    from importlib import metadata

    try:
        return metadata.version(name)
    except Exception:
        return None


def _is_there(spec):
    """The version, if the package is there and certainly one that the specifiers permit; else None."""
    match = _PLAIN.match(spec)
    version = _installed(match.group(1)) if match else None
    permitted = version is not None and all(_permits(each, version) for each in match.group(2).split(",") if each.strip())
    return version if permitted else None


def _permits(specifier, version):
    """False also where it is not known: the host compares versions that are more than numbers with dots."""
    match = _SPECIFIER.match(specifier)
    if match is None:
        return False
    operator, wanted = match.groups()
    if operator == "==" and wanted == version:
        return True
    series = wanted.endswith(".*") and operator in ("==", "!=")
    number = wanted[:-2] if series else wanted
    if not _RELEASE.match(number) or not _RELEASE.match(version) or (operator == "~=" and "." not in number):
        return False
    left, right = [[int(part) for part in each.split(".")] for each in (version, number)]
    given = len(right)
    length = max(len(left), given)
    left, right = left + [0] * (length - len(left)), right + [0] * (length - given)
    if series:
        return (left[:given] == right[:given]) == (operator == "==")
    if operator == "~=":
        return left >= right and left[: given - 1] == right[: given - 1]
    known = {"==": left == right, "!=": left != right, "<=": left <= right, ">=": left >= right, "<": left < right}
    return known.get(operator, left > right)


def _install(specs, options, deps):
    if not specs:
        raise PipError("pip install: name at least one package")
    wanted = []
    upgrade = any(name in options for name in ("-U", "--upgrade", "--force-reinstall", "-I", "--ignore-installed"))
    for spec in specs:
        version = None if upgrade else _is_there(spec)
        if version is None:
            wanted.append(spec)
        else:
            _say(options, "Requirement already satisfied: %s (%s)" % (spec, version))
    if not wanted:
        return 0
    change = _changer(deps).add(*wanted)
    if change.added:
        _say(options, "Successfully installed " + " ".join(each.replace("==", "-") for each in change.added))
    else:
        _say(options, "Requirement already satisfied: " + " ".join(wanted))
    if change.needs_restart:
        names = ", ".join(change.needs_restart)
        print("WARNING: %s: another version may have been imported already" % names, file=sys.stderr)
    return 0


def _uninstall(names, options, deps):
    if not names:
        raise PipError("pip uninstall: name at least one package")
    code = 0
    for name in names:
        version = _installed(name)
        if _changer(deps).remove(name):
            _say(options, "Successfully uninstalled %s%s" % (name, "-" + version if version else ""))
        elif version is None:
            print("WARNING: Skipping %s as it is not installed." % name, file=sys.stderr)
        else:
            text = "%s is not among the packages that this session asked for (pip freeze has more)" % name
            print("ERROR: %s, so it cannot be removed" % text, file=sys.stderr)
            code = 1
    return code


def _say(options, text):
    if not any(name.startswith(("-q", "--quiet")) for name in options):
        print(text)


def _distributions():
    """(name, version) of each, sorted; the first of a name counts."""
    from importlib import metadata

    importlib.invalidate_caches()
    found = {}
    for each in metadata.distributions():
        name = each.metadata["Name"]
        if name:
            found.setdefault(re.sub(r"[-_.]+", "-", name).lower(), (name, each.version))
    return [found[key] for key in sorted(found)]


def _list(words, options, deps):
    form = options.get("--format", "columns")
    rows = _distributions()
    if form == "freeze":
        return _freeze(words, options, deps)
    if form == "json":
        import json

        print(json.dumps([{"name": name, "version": version} for name, version in rows]))
    elif form == "columns":
        width = max([len(name) for name, _ in rows] + [len("Package")])
        print("%-*s Version" % (width, "Package"))
        print("-" * width, "-" * max([len(version) for _, version in rows] + [len("Version")]))
        for name, version in rows:
            print("%-*s %s" % (width, name, version))
    else:
        raise PipError("--format=%s: columns, freeze or json" % form)
    return 0


def _freeze(words, options, deps):
    for name, version in _distributions():
        print("%s==%s" % (name, version))
    return 0


def _show(names, options, deps):
    from importlib import metadata

    if not names:
        raise PipError("pip show: name at least one package")
    shown = 0
    for name in names:
        try:
            found = metadata.distribution(name)
        except Exception:
            print("WARNING: Package(s) not found: %s" % name, file=sys.stderr)
            continue
        if shown:
            print("---")
        shown += 1
        data = found.metadata
        requires = sorted({re.match(r"[A-Za-z0-9._-]+", each).group(0) for each in found.requires or () if ";" not in each})
        rows = [("Name", data["Name"]), ("Version", found.version), ("Summary", data["Summary"])]
        rows += [("Home-page", data["Home-page"]), ("Author", data["Author"]), ("License", data["License"])]
        rows += [("Location", str(found.locate_file(""))), ("Requires", ", ".join(requires))]
        for key, value in rows:
            print("%s: %s" % (key, value or ""))
    return 0 if shown == len(names) else 1


_COMMANDS = {"install": _install, "uninstall": _uninstall, "list": _list, "freeze": _freeze, "show": _show}
