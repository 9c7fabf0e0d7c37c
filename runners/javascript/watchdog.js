'use strict';
// SIGINT for code that runs behind an await. Once a cell has awaited, it is the event loop that calls it, and an
// endless loop there keeps Node from ever looking at its signals. A thread of our own sees the signal too; when the
// main thread has not answered soon, it terminates what runs there, and the event loop then handles the signal as
// usual. Promise reactions can be terminated so; in the callback of a timer Node finds its stacks corrupted and aborts,
// which is no worse than being killed. Workers have no process.on(signal), hence the binding below it.
//
// The thread starts with the first cell that awaits (it costs some megabytes) and listens only while one does: libuv
// installs its handler with the first listener of a process, so one that stayed would leave breakOnSigint's in place.

const path = require('path');
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');

const PATIENCE_MS = 250;
const DISARM_TIMEOUT_MS = 1000;
// What the threads share. Each writes its own word before it reads the other's: WANTED main's, LISTENING the worker's.
const WANTED = 0;
const LISTENING = 1;
const ANSWERED = 2;

class Watchdog {
  constructor() {
    this.shared = new Int32Array(new SharedArrayBuffer(12));
    this.worker = null;
  }

  arm() {
    Atomics.store(this.shared, ANSWERED, 0);
    Atomics.store(this.shared, WANTED, 1);
    if (!this.worker) {
      this.worker = new Worker(path.join(__dirname, 'watchdog.js'), { workerData: this.shared });
      this.worker.on('error', () => {}); // without it such loops end by being killed
      this.worker.unref();
    }
    this.worker.postMessage('look');
  }

  disarm() {
    if (!this.worker) return;
    this.rest();
    if (Atomics.load(this.shared, LISTENING) === 0) return;
    this.worker.postMessage('look');
    Atomics.wait(this.shared, LISTENING, 1, DISARM_TIMEOUT_MS);
  }

  // After a run: nothing is to be terminated. That the thread still listens does no harm before the next one.
  rest() {
    Atomics.store(this.shared, WANTED, 0);
  }

  answered() {
    Atomics.store(this.shared, ANSWERED, 1);
  }
}

function watch(shared) {
  process.noDeprecation = true;
  const inspector = require('inspector');
  const { SIGINT } = require('os').constants.signals;
  const { Signal } = process.binding('signal_wrap');
  const session = new inspector.Session();
  session.connectToMainThread();
  let signal = null;
  let timer = null;

  const onSignal = () => {
    timer = setTimeout(() => {
      const stuck = Atomics.load(shared, WANTED) === 1 && Atomics.load(shared, ANSWERED) === 0;
      if (stuck) session.post('Runtime.terminateExecution', () => {});
    }, PATIENCE_MS);
  };
  const stop = () => {
    if (signal) signal.close();
    signal = null;
    clearTimeout(timer);
    Atomics.store(shared, LISTENING, 0);
    Atomics.notify(shared, LISTENING);
  };
  parentPort.on('message', () => {
    Atomics.store(shared, LISTENING, 1);
    if (Atomics.load(shared, WANTED) === 0) return stop();
    if (signal) return undefined;
    signal = new Signal();
    signal.onsignal = onSignal;
    signal.start(SIGINT);
    return undefined;
  });
}

if (isMainThread) module.exports = { Watchdog };
else watch(workerData);
