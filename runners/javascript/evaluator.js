'use strict';
// Evaluates cells with the console semantics of V8: Runtime.evaluate in REPL mode, over an inspector session of the
// process with itself. It is the one interface of Node with redeclaration, top-level await and a completion value, all
// parsed by V8. The call is made from inside a vm.Script with breakOnSigint: Node then watches for SIGINT on a
// thread of its own and terminates JavaScript, so that an endless loop ends too. What runs later, called by the event
// loop, is ended by a frame, or by the watchdog.

const { executionAsyncId } = require('async_hooks');
const inspector = require('inspector');
const v8 = require('v8');
const vm = require('vm');
const interrupts = require('./interrupts');
const source = require('./source');

const REDECLARED = /^Identifier '(.+)' has already been declared$/;
const HIDDEN = '__cella_runner';
const COLLECTS_DANGEROUSLY = /^2[123]\./.test(process.versions.node);

// Thrown to the event loop and to be ignored there.
class AbandonedContext extends Error {}

class Evaluator {
  constructor() {
    this.connect();
    this.door = { call: null, received: undefined };
    Object.defineProperty(globalThis, HIDDEN, { value: this.door });
    this.script = new vm.Script(`${HIDDEN}.call()`, { filename: 'cella' });
  }

  connect() {
    this.session = new inspector.Session();
    this.session.connect();
    this.unanswered = new Map(); // by callback; the cell's promise
  }

  // What a run leaves behind unanswered, for it was interrupted or called process.exit(), will never be.
  abandon() {
    if (this.unanswered.size === 0) return;
    this.session.disconnect();
    this.connect();
  }

  // The inspector answers also when the cell's promise was collected as garbage; in Node 22 it then calls JavaScript in
  // the middle of the collection, and the process aborts. So the promise, the first that is made, is kept until then.
  post(parameters, receive) {
    this.unanswered.set(receive, null);
    const stop = !COLLECTS_DANGEROUSLY ? null : v8.promiseHooks.onInit((promise) => {
      stop();
      this.unanswered.set(receive, promise);
    });
    this.session.post('Runtime.evaluate', parameters, receive);
    if (stop) stop();
  }

  // Answers { value }, { thrown, position } (position only of what V8 could not compile) or { interrupted: true }.
  // `done` is called once for each call, unless the code awaits what never comes. `isAsked` returns, after a signal, whether
  // the code is to be interrupted before it has begun.
  evaluate(code, file, isAsked, done) {
    this.attempt(source.prepare(code), file, 0, isAsked, done);
  }

  attempt(code, file, tries, isAsked, done) {
    const expression = `${code}\n//# sourceURL=${file}`;
    const parameters = { expression, replMode: true, silent: true, objectGroup: HIDDEN };
    let over = false;
    const finish = (outcome) => {
      if (over) return;
      over = true;
      done(outcome);
    };
    let entered = false;
    let early = false;
    this.door.call = () => {
      // From here on a signal terminates; one from before does not.
      early = interrupts.take();
      if (early) return undefined;
      this.post(parameters, receive);
      entered = true;
      return undefined;
    };
    const receive = (failure, answer) => {
      this.unanswered.delete(receive);
      if (failure) return finish({ interrupted: true });
      const details = answer.exceptionDetails;
      const result = this.materialize(details ? details.exception || {} : answer.result);
      if (!details) return finish({ value: result });
      // What a cell throws arrives later, as the rejection of its promise; at once comes only what stopped it from
      // starting, so that a changed text can be tried without running anything twice.
      if (entered || details.stackTrace) return finish({ thrown: result });
      const redeclared = result instanceof SyntaxError && tries < 100 && REDECLARED.exec(result.message);
      const changed = redeclared && source.redeclare(code, redeclared[1], isFixedProperty(redeclared[1]));
      if (!changed) return finish({ thrown: result, position: [details.lineNumber, details.columnNumber] });
      over = true;
      if (!changed.hoisted) return this.attempt(changed.code, file, tries + 1, isAsked, done);
      return this.attempt(changed.hoisted, file, tries + 1, isAsked, (outcome) => {
        if ('value' in outcome) this.attempt(changed.code, file, tries + 1, isAsked, done);
        else done(outcome);
      });
    };
    const context = executionAsyncId();
    try {
      this.script.runInThisContext({ breakOnSigint: true });
    } catch (error) {
      if (error.code !== 'ERR_SCRIPT_EXECUTION_INTERRUPTED') throw error;
      interrupts.note();
      finish({ interrupted: true });
      // Termination runs no `finally`: an AsyncResource that the cell was in is still entered, and Node aborts when it
      // notices. An exception that reaches the event loop resets what was entered.
      if (executionAsyncId() !== context) throw new AbandonedContext();
    }
    if (!early) return;
    if (isAsked()) finish({ interrupted: true });
    else this.attempt(code, file, tries, isAsked, done);
  }

  // The value behind an inspector's description of it.
  materialize(remote) {
    if (remote.objectId !== undefined) {
      this.session.post('Runtime.callFunctionOn', {
        objectId: remote.objectId, functionDeclaration: `function () { ${HIDDEN}.received = this; }`, silent: true,
      });
      const value = this.door.received;
      this.door.received = undefined;
      this.session.post('Runtime.releaseObject', { objectId: remote.objectId });
      return remote.type === 'symbol' ? value.valueOf() : value;
    }
    if (remote.unserializableValue === undefined) return remote.subtype === 'null' ? null : remote.value;
    const text = remote.unserializableValue;
    return text.endsWith('n') ? BigInt(text.slice(0, -1)) : Number(text);
  }

  // The value of an expression that has no side effects; undefined also where it has.
  peek(expression) {
    let value;
    this.session.post('Runtime.evaluate',
      { expression, throwOnSideEffect: true, silent: true, objectGroup: HIDDEN, timeout: 500 }, (failure, answer) => {
        if (!failure && !answer.exceptionDetails) value = this.materialize(answer.result);
      });
    return value;
  }

  lexicalNames() {
    let names = [];
    this.session.post('Runtime.globalLexicalScopeNames', {}, (failure, answer) => {
      if (!failure) names = answer.names;
    });
    return names;
  }
}

function isFixedProperty(name) {
  const property = Object.getOwnPropertyDescriptor(globalThis, name);
  return !!property && !property.configurable;
}

module.exports = { AbandonedContext, Evaluator };
