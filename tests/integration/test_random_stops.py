"""Interrupts and cancels at random moments: none is lost, none reaches another run, and no state or process is."""

import random
import time

import pytest
from support.running import LONG, wait_until

STOPS = 10_000 if LONG else 500
# Long enough that a stop comes while the code runs, so that a stop that was accepted must have an effect.
ENDLESS = {
    "python": [
        "import time; time.sleep(60)",
        "while True: pass",
        "import subprocess; subprocess.run(['sleep', '60'])",
        "import threading; threading.Event().wait()",
        "import asyncio; await asyncio.sleep(60)",
        "import time\ntry: time.sleep(60)\nexcept KeyboardInterrupt: raise",
    ],
    "bash": ["sleep 60", "while :; do :; done", "for i in $(seq 1000); do sleep 60; done"],
    "javascript": ["await new Promise(() => {})", "for (;;) {}"],
}
# Over in a moment: the stop comes before, while or after the code runs.
SHORT = {
    "python": ["None", "import time; time.sleep(0.002)", "import subprocess; _ = subprocess.run(['true'])"],
    "bash": [":", "sleep 0.002", "true"],
    "javascript": ["undefined", "await new Promise((go) => setTimeout(go, 2))"],
}
KEEP = {
    "python": ("kept = {n}", "kept", "{n}"),
    "bash": ("kept={n}", "echo $kept", "{n}\n"),
    "javascript": ("var kept = {n}", "kept", "{n}"),
}
# Names of the processes that live. Zombies are dead: Python waits for them when it starts its next child.
LIVING = """import os
def living(pid):
    try:
        stat = open('/proc/%s/stat' % pid).read()
    except OSError:
        return []  # it has just ended
    return [stat.split('(')[1].split(')')[0]] if stat.rsplit(')', 1)[1].split()[0] != 'Z' else []
sorted(name for pid in os.listdir('/proc') if pid.isdigit() for name in living(pid))"""


def run_state(session, language, number):
    """Writes and reads a variable in runs of their own, which no stop of an earlier run may touch."""
    store, load, expected = (text.format(n=number) for text in KEEP[language])
    for code in (store, load):
        result = session.run(code, language=language)
        assert (result["status"], result["state"]) == ("ok", "kept"), (language, code, result)
    found = result["stdout"] if language == "bash" else result["value"]
    assert found == expected, (language, found, expected)


def stop_at_random(session, language, dice):
    """One run that is stopped at some moment; its result, and whether the stop was accepted."""
    endless = dice.random() < 0.7
    op = dice.choice(["interrupt", "interrupt", "cancel"])
    run = session.send(code=dice.choice((ENDLESS if endless else SHORT)[language]), language=language)
    if dice.random() < 0.8:
        time.sleep(dice.random() ** 3 * 0.05)
    stop = session.send(op=op, run=run)
    accepted = session.answer(stop)["cancelled" if op == "cancel" else "interrupted"]
    assert accepted or not endless, session.answer(run)
    result = session.answer(run)["result"]
    if endless:
        expected = "cancelled" if op == "cancel" else "error"
        assert result["status"] == expected, (op, result)
    else:
        assert result["status"] in ("ok", "error", "cancelled"), (op, result)
    return result


@pytest.mark.as_user
@pytest.mark.parametrize("language", ["python", "bash", "javascript"])
def test_stops_at_random_moments_touch_their_own_run_only(open_session, language):
    share = {"python": 0.6, "bash": 0.2, "javascript": 0.2}[language]
    dice = random.Random(f"{language} {STOPS}")
    session = open_session()
    session.run("import asyncio, subprocess, threading, time")  # an interrupted import leaves half a module
    run_state(session, language, 0)
    run_state(session, "python", 0)  # from here on there is a checkpoint
    before = session.value(LIVING)
    for number in range(1, int(STOPS * share) + 1):
        result = stop_at_random(session, language, dice)
        assert result["state"] in ("kept", "rolled_back"), result
        run_state(session, language, number)
    assert wait_until(lambda: session.value(LIVING) == before), "a stopped run left a process"
