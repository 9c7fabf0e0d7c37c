'use strict';
// Cella's runner for JavaScript: runs cells one after the other in the main context of this process, keeps their state,
// and speaks the protocol of runners/README.md on descriptor 3. One thread; a run ends when its top level has ended
// (awaited, and the promise that is its value too), while timers and servers that it leaves live on between runs.

const { Assistant } = require('./assist');
const { Channel } = require('./channel');
const { AbandonedContext, Evaluator } = require('./evaluator');
const { Stdio } = require('./stdio');
const interrupts = require('./interrupts');
const { ExitRequest, Surroundings } = require('./surroundings');
const values = require('./values');
const variables = require('./variables');
const { Watchdog } = require('./watchdog');

const endProcess = process.reallyExit.bind(process);
const environment = process.env;
const INTERRUPTED = { name: 'KeyboardInterrupt', message: 'interrupted', traceback: 'KeyboardInterrupt: interrupted' };

class Session {
  constructor() {
    this.valueLimit = 0;
    this.current = null; // the run that is under way
    this.last = null; // that one, or the one before
    this.isSignalDue = false; // a frame came to interrupt that, and no SIGINT yet
    this.queue = [];
    this.replies = []; // who waits for an input_reply
    this.watchdog = new Watchdog(() => this.interruptAwaited());
    this.stdio = new Stdio();
    this.evaluator = new Evaluator();
    this.surroundings = new Surroundings(this);
    this.assistant = new Assistant(this.evaluator);
    this.onRejection = (reason) => this.uncaught(reason, 'unhandledRejection');
    this.onException = (error) => this.uncaught(error, 'uncaughtException');
    this.listen();
    interrupts.hold();
    this.channel = new Channel(3, (frame) => this.receive(frame), () => endProcess(0));
  }

  send(frame) {
    this.channel.send(frame);
  }

  // The number of a mark in the text, where the display belongs that follows; 0: there is none.
  markText() {
    const run = this.current;
    if (!run || !run.mark) return 0;
    run.marks += 1;
    this.stdio.mark(`\0cella ${run.mark} ${run.marks}\0`);
    return run.marks;
  }

  // A cell may remove listeners, ours among them.
  listen() {
    const ours = [
      ['SIGINT', interrupts.listener],
      ['unhandledRejection', this.onRejection],
      ['uncaughtException', this.onException],
    ];
    ours.forEach(([event, listener]) => {
      if (!process.listeners(event).includes(listener)) process.on(event, listener);
    });
  }

  receive(frame) {
    if (frame.type === 'configure') this.configure(frame);
    else if (frame.type === 'run') this.enqueue(frame);
    else if (frame.type === 'interrupt') this.receiveInterrupt(frame.run);
    else if (frame.type === 'input_reply') this.reply(frame);
    else if (frame.type === 'complete') this.send({ type: 'completion', ...this.assistant.complete(frame) });
    else if (frame.type === 'inspect') this.send({ type: 'inspection', ...this.assistant.inspect(frame) });
    else if (frame.type === 'is_complete') this.send({ type: 'completeness', ...this.assistant.isComplete(frame) });
  }

  configure(frame) {
    const wanted = frame.env || {};
    Object.keys(environment).forEach((name) => {
      if (!(name in wanted)) delete environment[name];
    });
    Object.keys(wanted).forEach((name) => {
      environment[name] = wanted[name];
    });
    if (frame.cwd) process.chdir(frame.cwd);
    this.valueLimit = frame.value_limit || 0;
    this.surroundings.refresh();
  }

  enqueue(frame) {
    this.queue.push(frame);
    if (!this.current) this.next();
  }

  next() {
    const frame = this.queue.shift();
    if (!frame) return;
    const file = frame.file || `cell ${frame.number}`;
    if (this.isSignalDue) interrupts.settle(this.last.signals); // it was sent before this run was
    this.isSignalDue = false;
    const run = {
      id: frame.run, input: !!frame.input, source: values.nameSource(file, frame.code), over: false,
      signals: interrupts.noted(), mark: frame.mark, marks: 0,
    };
    this.current = run;
    this.last = run;
    this.listen();
    process.exitCode = undefined;
    const ask = run.input ? (answer) => this.ask('', answer) : null;
    this.stdio.begin(typeof frame.stdin === 'string' ? frame.stdin : null, ask);
    this.surroundings.refresh();
    // A signal from before the code began counts if it is for this run.
    const isAsked = () => this.channel.holds('interrupt', run.id);
    try {
      if (frame.variables) variables.assign(frame.variables);
    } catch (thrown) {
      this.conclude(run, { thrown });
      return;
    }
    this.evaluator.evaluate(frame.code, run.source, isAsked, (outcome) => this.conclude(run, outcome));
    if (!run.over && /\bawait\b/.test(frame.code)) this.watchdog.arm();
  }

  conclude(run, outcome) {
    if (run.over) return;
    if (outcome.interrupted) this.interrupt();
    else if (outcome.thrown instanceof ExitRequest) this.exit(outcome.thrown);
    else if ('thrown' in outcome) this.fail(run, outcome);
    else if (outcome.value instanceof Promise) {
      outcome.value.then((value) => this.conclude(run, { value }), (thrown) => this.conclude(run, { thrown }));
    } else this.succeed(run, outcome.value);
  }

  succeed(run, value) {
    this.finish(run, 'ok', 0, () => {
      if (value === undefined) return null;
      const mime = values.bundle(value, this.valueLimit);
      return { type: 'value', text: mime['text/plain'], mime, metadata: {} };
    });
  }

  fail(run, { thrown, position }) {
    // A child that the signal has ended may be what it throws about, before the signal is felt here.
    if (this.channel.holds('interrupt', run.id)) return this.interrupt();
    return this.finish(run, 'error', 1, () => (
      { type: 'error', ...values.describeError(thrown, this.valueLimit, run.source, position) }
    ));
  }

  receiveInterrupt(id) {
    if (!this.last || this.last.id !== id) return;
    this.isSignalDue = !interrupts.settle(this.last.signals);
    this.last.signals = interrupts.noted();
    if (!this.last.over) this.interruptAwaited();
  }

  interruptAwaited() {
    if (!this.current || this.current.over) return;
    this.interrupt();
    interrupts.tellListeners();
  }

  interrupt() {
    this.listen();
    if (this.current) this.finish(this.current, 'interrupted', 130, () => ({ type: 'error', ...INTERRUPTED }));
  }

  exit(request) {
    if (this.current) this.finish(this.current, 'exit', request.code, () => null);
  }

  // The last turn of the event loop belongs to the run: rejections that it left unhandled are printed before `done`.
  // SIGINT may tear this apart where a cell calls it: then it is called once more.
  finish(run, status, code, lastFrame) {
    if (run.over) return;
    setImmediate(() => {
      if (this.current !== run) return;
      const frame = lastFrame();
      if (frame) this.send(frame);
      this.replies = [];
      this.stdio.ask = null;
      this.listen();
      this.current = null;
      this.evaluator.abandon();
      this.watchdog.disarm();
      this.send({ type: 'done', run: run.id, status, exit_code: code });
      this.next();
    });
    run.over = true;
  }

  uncaught(error, event) {
    if (error instanceof ExitRequest || error instanceof AbandonedContext) return;
    if (process.listenerCount(event) > 1) return; // the cell has a listener of its own
    const { traceback } = values.describeError(error, 0);
    const title = event === 'unhandledRejection' ? 'Unhandled rejection' : 'Uncaught exception';
    process.stderr.write(`${title}:\n${traceback}\n`);
  }

  ask(prompt, callback) {
    this.replies.push(callback);
    this.send({ type: 'input_request', prompt, password: false });
  }

  reply(frame) {
    const callback = this.replies.shift();
    if (callback) callback(frame.eof ? null : String(frame.text));
  }

  // For prompt(): a line of the run's own stdin, else the caller's answer, else null.
  prompt(text) {
    const line = this.stdio.readLine();
    if (line !== null || !this.current || !this.current.input) {
      process.stdout.write(text);
      return line;
    }
    this.send({ type: 'input_request', prompt: text, password: false });
    const frame = this.channel.waitFor('input_reply');
    return frame.eof ? null : String(frame.text);
  }
}

new Session(); // lives as long as its socket
