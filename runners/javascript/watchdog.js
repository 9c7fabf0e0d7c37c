'use strict';
// SIGINT for code that runs behind an await. Once a cell has awaited, it is the event loop that calls it, and an
// endless loop there keeps Node from ever reading the `interrupt` frame. A thread of our own sees that a signal came;
// when the main thread does not take notice of it soon, it terminates what runs there, and the event loop is then
// notified. Promise reactions can be terminated so; in the callback of a timer Node finds its stacks corrupted and
// aborts, which is no worse than being killed.
//
// The thread starts with the first cell that awaits (it costs some megabytes) and looks only while one does.

const path = require('path');
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const interrupts = require('./interrupts');

const LOOK_MS = 50;
const PATIENCE_MS = 250;

class Watchdog {
  // onSignal is called for a signal that came while nothing ran synchronously, or after that was terminated.
  constructor(onSignal) {
    this.onSignal = onSignal;
    this.wanted = new Int32Array(new SharedArrayBuffer(4));
    this.worker = null;
  }

  arm() {
    Atomics.store(this.wanted, 0, 1);
    if (!this.worker) {
      this.worker = new Worker(path.join(__dirname, 'watchdog.js'), { workerData: this.wanted });
      this.worker.on('error', () => {}); // without it such loops end by being killed
      this.worker.on('message', () => {
        if (interrupts.take()) this.onSignal();
      });
      this.worker.unref();
    }
    this.worker.postMessage('look');
  }

  disarm() {
    Atomics.store(this.wanted, 0, 0);
  }
}

function watch(wanted) {
  const inspector = require('inspector');
  const session = new inspector.Session();
  session.connectToMainThread();
  let timer = null;
  let since = null;

  const rest = () => {
    clearInterval(timer);
    timer = null;
    since = null;
  };
  const look = () => {
    if (Atomics.load(wanted, 0) === 0) {
      rest();
    } else if (!interrupts.isPending()) {
      since = null;
    } else if (since === null) {
      since = Date.now();
      parentPort.postMessage('notice');
    } else if (Date.now() - since >= PATIENCE_MS) {
      since = Date.now();
      session.post('Runtime.terminateExecution', () => {});
      parentPort.postMessage('notice'); // what was noticed before may have been another signal
    }
  };
  parentPort.on('message', () => {
    if (timer === null) timer = setInterval(look, LOOK_MS);
  });
}

if (isMainThread) module.exports = { Watchdog };
else watch(workerData);
