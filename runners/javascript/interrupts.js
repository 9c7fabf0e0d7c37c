'use strict';
// SIGINT, which ends what runs synchronously: vm's breakOnSigint has a thread that waits for it and terminates
// JavaScript. Outside of such a call nothing happens but that Node notes it; for code that is awaited there is the
// `interrupt` frame that comes before it.
//
// Node lets that thread go with every call, and with it the handler: a signal that comes just before or after would end
// the process. So the thread is held from here on, by the means of Node's own REPL, and no other code installs a handler:
// listeners of a cell are called from here. Node is to think that it has one all the same, or process.kill(process.pid,
// 'SIGINT') would prepare for the end of the process.

const { nap } = require('./channel');

const SETTLE_MS = 20;
const NODES_OWN = ['newListener', 'removeListener']; // by listeners for these, process starts and stops to catch signals

function helpers() {
  const silent = process.noDeprecation;
  process.noDeprecation = true;
  try {
    return process.binding('contextify');
  } catch (error) {
    return {};
  } finally {
    process.noDeprecation = silent;
  }
}

const { startSigintWatchdog, stopSigintWatchdog, watchdogHasPendingSigint } = helpers();
const isHeld = !!(startSigintWatchdog && stopSigintWatchdog);
let count = 0; // of the signals that were noted

// Stays registered: libraries that end the process on a signal look whether another handler listens.
function listener() {}

function hold() {
  process.on('SIGINT', listener);
  if (!isHeld) return; // a Node without those means: only badly timed signals end it
  startSigintWatchdog();
  NODES_OWN.forEach((event) => process.listeners(event).forEach((original) => {
    process.removeListener(event, original);
    process.on(event, (name, ...rest) => {
      if (name !== 'SIGINT') original.call(process, name, ...rest);
    });
  }));
}

// Whether one came that nothing was terminated by. It is forgotten then.
function take() {
  if (!isHeld) return false;
  startSigintWatchdog();
  const came = stopSigintWatchdog();
  if (came) note();
  return came;
}

// The same, from any thread; not forgotten.
function isPending() {
  return !!watchdogHasPendingSigint && watchdogHasPendingSigint();
}

function note() {
  count += 1;
}

function noted() {
  return count;
}

// After a frame that came when so many had been noted: the signal that follows it must not hit the next run. Returns
// whether it came.
function settle(before) {
  const end = Date.now() + SETTLE_MS;
  while (isHeld && count === before && !take() && Date.now() < end) nap(1);
  return count !== before;
}

function tellListeners() {
  if (isHeld) process.emit('SIGINT', 'SIGINT', 2);
}

module.exports = { hold, isPending, listener, note, noted, settle, take, tellListeners };
