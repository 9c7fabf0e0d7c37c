"""The JavaScript runner: the real program over a real socket, outside any jail."""

import base64
import json
import time

import pytest
from exec_driver import Ended, Runner
from javascript_runner import COMMAND, runner  # noqa: F401 (fixture)


def test_value_of_the_last_expression(runner):
    answer = runner.run("const x = 20\nx * 2 + 2")
    assert (answer.status, answer.exit_code, answer.value) == ("ok", 0, "42")
    assert runner.run("'a' + 'b'").value == "'ab'"
    assert runner.run("undefined").value is None
    assert runner.run("let unused = 5").value is None
    assert runner.run("null").value == "null"


@pytest.mark.parametrize("code, text", [
    ("-0", "-0"), ("NaN", "NaN"), ("2n ** 70n", "1180591620717411303424n"), ("Symbol('s')", "Symbol(s)"), ("''", "''"),
    ("new Map([[1, {a: 2}]])", "Map(1) { 1 => { a: 2 } }"), ("(function f() {})", "[Function: f]"), ("false", "false"),
])
def test_values_are_shown_as_node_shows_them(runner, code, text):
    assert runner.run(code).value == text


def test_plain_data_is_also_json(runner):
    value = runner.run("({ a: [1, 'é'], b: null })").only("value")
    assert json.loads(value["mime"]["application/json"]) == {"a": [1, "é"], "b": None}
    assert value["mime"]["text/plain"] == value["text"]
    assert "application/json" not in runner.run("new Date(0)").only("value")["mime"]
    assert "application/json" not in runner.run("'x'.repeat(70000).split('')").only("value")["mime"]
    assert "application/json" not in runner.run("const loop = {}; loop.loop = loop; loop").only("value")["mime"]


def test_value_is_capped_in_bytes(tmp_path):
    small = Runner(COMMAND, tmp_path, value_limit=1000)
    text = small.run("'é'.repeat(5000)").value
    assert text.startswith("'éé") and 900 < len(text.encode()) < 1050
    small.close()


@pytest.mark.parametrize("first", ["let x = 1", "const x = 1", "var x = 1", "class x {}", "function x() {}",
                                   "const { x } = { x: 1 }", "const [w, x] = [1, 2]"])
@pytest.mark.parametrize("second", ["let x = 2; x = 7", "const x = 7", "var x = 7", "class x { static y() {} }",
                                    "function x() { return 7 }", "async function x() {}", "const { x } = { x: 7 }"])
def test_declaration_replaces_any_earlier_one(runner, first, second):
    runner.run(first)
    answer = runner.run(second)
    assert answer.status == "ok", answer.error
    expected = {"class x": "[class x] {", "function": "[Function: x]", "async fu": "[AsyncFunction: x]"}
    text = runner.run("x").value
    assert text.startswith(expected.get(second[:8], "[class x]" if second.startswith("class") else "7"))


def test_a_replaced_function_is_still_hoisted(runner):
    runner.run("let area = 1")
    assert runner.run("const a = area(3)\nfunction area(r) {\n  return r * r\n}\na").value == "9"
    answer = runner.run("let area = 1\n")
    assert answer.status == "ok"
    answer = runner.run("1\n\nfunction area() {\n  throw new Error('here')\n}\narea()")
    assert "cell 4:4:9" in answer.error["traceback"]


def test_redeclaration_within_one_cell_is_an_error(runner):
    answer = runner.run("let a = 1\nlet a = 2")
    assert answer.error["name"] == "SyntaxError"
    assert "already been declared" in answer.error["message"]


def test_state_is_seen_by_closures_of_earlier_runs(runner):
    runner.run("let count = 0; const bump = () => ++count; class Base { hi() { return 'hi' } }")
    runner.run("class Derived extends Base {}; bump()")
    assert runner.run("bump() + new Derived().hi()").value == "'2hi'"
    runner.run("count = 10")
    assert runner.run("bump()").value == "11"


def test_declarations_shadow_globals_without_breaking_them(runner):
    answer = runner.run("const crypto = require('crypto'); const process = require('process'); const JSON = 1;"
                        "const { setTimeout } = require('timers/promises');"
                        "await setTimeout(5); crypto.createHash('md5').update('').digest('hex')")
    assert answer.value == "'d41d8cd98f00b204e9800998ecf8427e'"
    assert runner.run("typeof globalThis.setTimeout(() => 0, 1).ref").value == "'function'"


def test_top_level_await_and_loops(runner):
    assert runner.run("const r = await new Promise(done => setTimeout(() => done(5), 20)); r + 1").value == "6"
    assert runner.run("let sum = 0; for await (const n of [1, Promise.resolve(2)]) sum += n; sum").value == "3"


def test_a_promise_as_last_value_is_awaited(runner):
    answer = runner.run("async function main() { await null; console.log('in main'); return 8 }\nmain()")
    assert (answer.stdout, answer.value) == ("in main\n", "8")
    answer = runner.run("(async () => { throw new RangeError('far') })()")
    assert (answer.status, answer.error["name"]) == ("error", "RangeError")


def test_require_and_import_find_modules_of_the_directory(runner, tmp_path):
    (tmp_path / "common.js").write_text("exports.twice = n => 2 * n; exports.main = require.main === module")
    (tmp_path / "modern.mjs").write_text("export default 'dflt'; export const named = 'nm'; export const other = 'ot'")
    (tmp_path / "data.json").write_text('{"k": [1]}')
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "common.js").write_text("exports.twice = () => 'sub'")
    assert runner.run("require('./common').twice(4)").value == "8"
    assert runner.run("require('./data.json').k").value == "[ 1 ]"
    answer = runner.run("import dflt, { named as n, other } from './modern.mjs'\nimport * as all from './modern.mjs';\n"
                        "import { join } from 'path'\nimport 'fs'\n[dflt, n, other, all.named, join('a', 'b')].join()")
    assert answer.value == "'dflt,nm,ot,nm,a/b'", answer.error
    assert runner.run("const load = async () => (await import('./modern.mjs')).default; await load()").value == "'dflt'"
    assert runner.run("import d from './modern.mjs'\nd").value == "'dflt'"
    assert runner.run("process.chdir('sub')").status == "ok"
    assert runner.run("require('./common').twice(4)").value == "'sub'"
    assert runner.run("export const shared = 5\nrequire.main === module && shared").value == "5"
    assert runner.run("`import x from 'y'; const ${'z'}` + /import('a')|const/.source").status == "ok"


def test_import_statements_keep_line_numbers(runner):
    answer = runner.run("import {\n  join,\n  sep\n} from 'path'\nthrow new Error(join('a', 'b'))")
    assert "cell 1:5" in answer.error["traceback"]


def test_missing_module_is_an_error(runner):
    assert "Cannot find module" in runner.run("require('./nowhere')").error["message"]
    assert "nowhere" in runner.run("import x from './nowhere.mjs'").error["message"]


def test_error_has_source_line_and_only_frames_of_the_cell(runner):
    answer = runner.run("function inner() {\n  null.x\n}\n\ninner()")
    assert (answer.status, answer.exit_code, answer.error["name"]) == ("error", 1, "TypeError")
    assert answer.error["message"] == "Cannot read properties of null (reading 'x')"
    assert answer.error["traceback"] == (
        "cell 1:2\n  null.x\n       ^\n\nTypeError: Cannot read properties of null (reading 'x')\n"
        "    at inner (cell 1:2:8)\n    at cell 1:5:1")


def test_traceback_names_the_file_and_the_cell(runner):
    runner.run("const fail = () => { throw new Error('x') }", file="my script.js")
    trace = runner.run("await null\nfail()").error["traceback"]
    assert "at fail (my script.js:1:28)" in trace and "at cell 2:2:1" in trace
    assert "runner" not in trace and "node:" not in trace


def test_error_shows_cause_and_fields(runner):
    error = runner.run("const e = new Error('top', { cause: new TypeError('below') }); e.code = 'E_X'; throw e").error
    assert "below" in error["traceback"] and "E_X" in error["traceback"]


def test_syntax_error_shows_line_and_caret_and_keeps_state(runner):
    runner.run("let kept = 1")
    error = runner.run("let a = 1\nlet b = = 2\n").error
    assert error["name"] == "SyntaxError"
    assert error["traceback"].startswith("cell 2:2\nlet b = = 2\n        ^\n\nSyntaxError: Unexpected token '='")
    assert runner.run("kept").value == "1"


@pytest.mark.parametrize("code, message", [("throw 5", "5"), ("throw null", "null"), ("throw undefined", "undefined"),
                                           ("throw { a: 1 }", "{ a: 1 }"), ("await Promise.reject('no')", "'no'")])
def test_anything_can_be_thrown(runner, code, message):
    answer = runner.run(code)
    assert (answer.status, answer.error["name"], answer.error["message"]) == ("error", "Uncaught", message)


def test_errors_and_values_that_throw_do_not_end_the_session(runner):
    assert runner.run("throw Object.assign(new Error('a'), { get stack() { throw 1 } })").status == "error"
    assert runner.run("const odd = new Error('b'); Object.defineProperty(odd, 'message', { get() { throw 2 } });"
                      "throw odd").status == "error"
    assert runner.run("({ [Symbol.for('nodejs.util.inspect.custom')]() { throw new Error('c') } })").status == "ok"
    assert runner.run("new Proxy({}, { get() { throw new Error('d') } })").status == "ok"
    assert runner.run("function deep() { deep() }; deep()").error["name"] == "RangeError"
    assert runner.run("1").value == "1"


def test_output_is_ordered_and_complete_before_done(runner):
    answer = runner.run("console.log('out'); console.error('err'); process.stdout.write('no newline');"
                        "process.stderr.write(Buffer.from([255, 0, 10])); console.table([{ a: 1 }])")
    assert answer.stdout.startswith("out\nno newline┌") and answer.stderr_bytes == b"err\n\xff\x00\n"


def test_large_output_is_complete_at_done(runner):
    answer = runner.run("for (let i = 0; i < 16; i++) process.stdout.write(Buffer.alloc(1 << 16, i)); 1")
    assert answer.stdout_bytes == b"".join(bytes([i]) * 65536 for i in range(16))


def test_children_share_the_output(runner):
    answer = runner.run("console.log('one'); require('child_process').execSync('echo two; echo three >&2',"
                        "{ stdio: 'inherit' }); console.log('four')")
    assert (answer.stdout, answer.stderr) == ("one\ntwo\nfour\n", "three\n")


def test_children_do_not_inherit_the_socket(runner):
    answer = runner.run("require('child_process').execSync('ls -l /proc/self/fd', { stdio: 'inherit' })")
    assert "pipe:" in answer.stdout and "socket:" not in answer.stdout


def test_stream_methods_cannot_close_the_output(runner):
    answer = runner.run("process.stdout.end('last\\n'); process.stdout.destroy(); console.log('still')")
    assert answer.stdout == "last\nstill\n"


def test_closed_descriptors_are_restored_for_the_next_run(runner):
    runner.run("const fs = require('fs'); fs.closeSync(0); fs.closeSync(1); fs.closeSync(2)")
    answer = runner.run("console.log('out'); console.error('err'); fs.readFileSync(0, 'utf8')")
    assert (answer.stdout, answer.stderr, answer.value) == ("out\n", "err\n", "''")


def when_there(name, code):
    """Code that leaves other code to a timer, until there is a file of that name: its own run is over by then."""
    return (f"{{ const timer = setInterval(() => {{ if (!require('fs').existsSync('{name}')) return;"
            f" clearInterval(timer); {code} }}, 5) }};")


def test_timers_run_between_runs(runner, tmp_path):
    code = "let ticks = 0;" + when_there("go", "ticks++; console.log('late')")
    assert runner.run(code + "'now'").value == "'now'"
    (tmp_path / "go").touch()
    runner.wait_output("stdout", b"late\n")
    assert runner.run("ticks").value == "1"


def test_late_rejections_and_exceptions_are_printed_and_do_not_end_the_session(runner, tmp_path):
    answer = runner.run("Promise.reject(new Error('left')); 3")
    assert (answer.status, answer.value) == ("ok", "3")
    assert "Unhandled rejection" in answer.stderr and "Error: left\n    at cell 1:1:16" in answer.stderr
    for name, before, code, printed in (
        ("a", "", "throw new Error('late')", b"Error: late"),
        ("b", "", "new (require('events'))().emit('error', new Error('emitted'))", b"emitted"),
        ("c", "process.removeAllListeners();", "throw 1", b"Uncaught 1"),
    ):
        runner.run(before + when_there(name, code))
        (tmp_path / name).touch()
        runner.wait_output("stderr", printed)
    assert runner.run("1 + 1").value == "2"


def test_uncaught_exception_listener_of_a_cell_is_called(runner):
    runner.run("const seen = []; process.on('uncaughtException', e => seen.push(e.message));"
               "setTimeout(() => { throw new Error('mine') }, 1); await new Promise(r => setTimeout(r, 20))")
    answer = runner.run("seen")
    assert (answer.value, answer.stderr) == ("[ 'mine' ]", "")


@pytest.mark.parametrize("code, exit_code", [
    ("process.exit(4); console.log('no')", 4),
    ("process.exit()", 0),
    ("process.exitCode = 9; process.exit()", 9),
    ("try { process.exit(5) } catch (e) {} finally { }", 5),
    ("setTimeout(() => process.exit(6), 5); await new Promise(() => {})", 6),
    ("(async () => { await null; process.exit(7) })(); await new Promise(() => {})", 7),
    ("[1].forEach(() => process.exit(300))", 44),
])
def test_exit_ends_the_run_and_keeps_the_state(runner, code, exit_code):
    runner.run("let kept = 'yes'")
    answer = runner.run(code)
    assert (answer.status, answer.exit_code, answer.stdout, answer.stderr) == ("exit", exit_code, "", "")
    assert answer.error is None
    assert runner.run("kept").value == "'yes'"


def test_exit_from_a_timer_between_runs_does_nothing(runner, tmp_path):
    runner.run("let kept = 1;" + when_there("go", "console.log('bang'); process.exit(1)"))
    (tmp_path / "go").touch()
    runner.wait_output("stdout", b"bang")
    assert runner.run("kept").value == "1"


def test_unicode_passes_in_both_directions(runner):
    answer = runner.run("const größe = '😀'; console.log(größe, '日本'); größe + 'é'")
    assert (answer.stdout, answer.value) == ("😀 日本\n", "'😀é'")
    body = json.dumps({"type": "run", "run": "run_2", "number": 2, "code": "'😀'.length", "file": None, "stdin": None,
                       "input": False}).encode()
    runner.number += 1
    runner.send_body(body)
    assert runner.finish().value == "2"


def test_megabyte_of_code_runs(runner):
    lines = "\n".join(f"const v{i} = 'some text that fills the line'; // a comment, /regex/" for i in range(16000))
    began = time.monotonic()
    answer = runner.run(lines + "\nv15999.length")
    assert (len(lines) > 1 << 20, answer.value) == (True, "29")
    assert time.monotonic() - began < 5


def test_stdin_text_is_read_by_every_api(runner):
    text = "first\nzweite é\n"
    assert runner.run("require('fs').readFileSync(0, 'utf8')", stdin=text).value == repr(text)
    assert runner.run("require('fs').readFileSync('/dev/stdin', 'utf8')", stdin=text).value == repr(text)
    assert runner.run("require('child_process').execSync('cat', { stdio: [0, 'pipe', 2] }).toString()",
                      stdin=text).value == repr(text)
    code = "let all = ''; for await (const c of process.stdin) all += c\nall"
    assert runner.run(code, stdin=text).value == repr(text)
    answer = runner.run("[prompt('a? '), prompt('b? '), prompt()]", stdin=text)
    assert (answer.value, answer.stdout) == ("[ 'first', 'zweite é', null ]", "a? b? ")
    assert runner.run("const rl = require('readline').createInterface({ input: process.stdin }); const got = [];"
                      "for await (const line of rl) got.push(line)\ngot",
                      stdin=text).value == "[ 'first', 'zweite é' ]"
    assert runner.run("[prompt(), require('fs').readFileSync(0, 'utf8')]").value == "[ null, '' ]"


def test_prompt_sends_an_input_request(runner):
    runner.start("const name = prompt('who? '); name + '!'", input=True)
    assert runner.receive() == {"type": "input_request", "prompt": "who? ", "password": False}
    runner.send(type="complete", code="na", cursor=2)
    time.sleep(0.05)
    runner.send(type="input_reply", text="Zoé 😀")
    frames = [runner.receive() for _ in range(3)]
    by_type = {frame["type"]: frame for frame in frames}
    assert by_type["value"]["text"] == "'Zoé 😀!'" and by_type["done"]["status"] == "ok"
    assert "name" in by_type["completion"]["matches"]
    runner.start("prompt()", input=True)
    runner.receive()
    runner.send(type="input_reply", eof=True)
    assert runner.finish().value == "null"


def test_reading_stdin_sends_an_input_request(runner):
    runner.start("const { createInterface } = require('readline/promises');"
                 "const rl = createInterface({ input: process.stdin, output: process.stdout });"
                 "const answer = await rl.question('age? '); rl.close(); answer", input=True)
    assert runner.receive()["type"] == "input_request"
    runner.send(type="input_reply", text="42")
    answer = runner.finish()
    assert (answer.value, answer.stdout) == ("'42'", "age? ")


def test_display_sends_frames(runner):
    frames = runner.run("display({ 'text/html': '<b>x</b>', 'image/png': Buffer.from([1, 2]) });"
                        "display([1, 2]); display('t', { id: 'p', update: true, metadata: { w: 1 } });"
                        "display({ toMimeBundle() { return { 'text/markdown': '*m*' } } })").frames
    shown = [frame for frame in frames if frame["type"] == "display"]
    assert shown[0]["mime"] == {"text/html": "<b>x</b>", "image/png": base64.b64encode(b"\x01\x02").decode()}
    assert (shown[0]["display_id"], shown[0]["update"], shown[0]["metadata"]) == (None, False, {})
    assert shown[1]["mime"] == {"text/plain": "[ 1, 2 ]", "application/json": "[1,2]"}
    assert (shown[2]["display_id"], shown[2]["update"], shown[2]["metadata"]) == ("p", True, {"w": 1})
    assert shown[3]["mime"] == {"text/markdown": "*m*"}


def test_place_of_a_display_is_marked_in_the_text(runner):
    code = "process.stdout.write('a'); display(1); console.log('b'); require('fs').closeSync(2); display(2); console.log('c')"
    answer = runner.run(code, mark="t0k")
    assert [frame["mark"] for frame in answer.frames if frame["type"] == "display"] == [1, 2]
    assert answer.stdout == "a\0cella t0k 1\0b\n\0cella t0k 2\0c\n"
    assert answer.stderr == "\0cella t0k 1\0\0cella t0k 2\0"
    assert answer.stdout and "mark" not in runner.run("display(1)").frames[0]


def test_display_is_sent_while_the_code_is_busy(runner):
    runner.start("display({ 'text/plain': 'early' }); while (true) {}")
    assert runner.receive()["mime"] == {"text/plain": "early"}
    runner.interrupt()
    assert runner.finish().status == "interrupted"


def test_complete_returns_matches(runner):
    runner.run("const settings = { depth: 1, detail: { nested: 2 } }; class Widget {}")
    answer = runner.ask(type="complete", code="'😀'; settings.de", cursor=16)
    assert answer == {"type": "completion", "matches": ["depth", "detail"], "start": 14, "end": 16}
    assert runner.ask(type="complete", code="settings.detail.n", cursor=17)["matches"] == ["nested"]
    assert "Widget" in runner.ask(type="complete", code="new Wid", cursor=7)["matches"]
    assert runner.ask(type="complete", code="nowhere.x", cursor=9)["matches"] == []
    assert "toFixed" in runner.ask(type="complete", code="settings.depth.toF", cursor=18)["matches"]


def test_completion_has_no_side_effects(runner):
    runner.run("let touched = 0; const trap = { get bait() { touched++; return {} } }")
    assert runner.ask(type="complete", code="trap.bait.x", cursor=11)["matches"] == []
    assert runner.run("touched").value == "0"


def test_inspect_returns_help(runner):
    runner.run("function area(w, h) { return w * h }; const box = { w: 1 }")
    assert runner.ask(type="inspect", code="area(1, 2)", cursor=2) == {
        "type": "inspection", "found": True, "text": "function area(w, h) { return w * h }"}
    assert runner.ask(type="inspect", code="x = box", cursor=7)["text"] == "{ w: 1 }"
    assert runner.ask(type="inspect", code="missing", cursor=3)["found"] is False


@pytest.mark.parametrize("code, status", [
    ("1 + 1", "complete"), ("await f()", "complete"), ("const a = 1\nimport fs from 'fs'", "complete"),
    ("", "complete"),
    ("f(", "incomplete"), ("for (;;) {", "incomplete"), ("`a ${b", "incomplete"), ("x =", "incomplete"),
    ("/* open", "incomplete"), ("if (a) { b() } else", "incomplete"), ("a b", "invalid"), ("}", "invalid"),
    ("let }", "invalid"), ("'open", "invalid"), ("const re = /[)]/g", "complete"), ("a / b / (c)", "complete"),
])
def test_is_complete_classifies_code(runner, code, status):
    assert runner.ask(type="is_complete", code=code) == {"type": "completeness", "status": status}


def test_configure_sets_the_environment_and_the_directory(runner, tmp_path):
    assert runner.run("process.env.GREETING").value == "'hello'"
    other = tmp_path / "other"
    other.mkdir()
    runner.send(type="configure", env={"ONLY": "this"}, cwd=str(other), network=False, value_limit=1000)
    assert runner.run("({ ...process.env })").value == "{ ONLY: 'this' }"
    assert runner.run("process.cwd()").value == repr(str(other))


def test_unknown_frames_are_ignored(runner):
    runner.send(type="something", strange=[1, {"a": None}])
    assert runner.run("1").value == "1"


def test_runner_ends_when_the_socket_closes(tmp_path):
    made = Runner(COMMAND, tmp_path)
    made.run("setInterval(() => {}, 1000); 0")
    assert made.close() == 0


def test_killed_runner_closes_its_socket(runner):
    with pytest.raises((Ended, ConnectionError)):
        runner.run("process.kill(process.pid, 'SIGKILL'); await new Promise(() => {})")


@pytest.mark.alone
def test_small_run_is_quick(runner):
    runner.run("let x = 0")
    times = []
    for _ in range(300):
        began = time.perf_counter()
        runner.run("x = 1")
        times.append(time.perf_counter() - began)
    assert sorted(times)[len(times) // 2] < 0.01
