'use strict';
// Descriptors 0, 1 and 2 as a cell sees them. Output is written synchronously, so that all of it is in the pipes before
// `done`, and never through libuv, which would make the pipes non-blocking for child processes too. Input is whatever
// descriptor 0 is: /dev/null, or the run's own text in an unlinked file, so that streams, fs.readSync(0) and child
// processes all read the same. Where the caller can answer, process.stdin and prompt() ask for what is not there.

const fs = require('fs');
const os = require('os');
const path = require('path');
const { Readable, Writable } = require('stream');
const { writeAll } = require('./channel');

class Output extends Writable {
  constructor(fd) {
    super({ decodeStrings: true });
    this.fd = fd;
    this._type = 'fs';
  }

  _write(chunk, encoding, callback) {
    try {
      writeAll(this.fd, chunk);
    } catch (error) {
      // The pipe has no reader, or the cell closed the descriptor: a program that prints continues.
    }
    callback();
  }

  // Like Node's own standard streams these cannot be closed.
  end(...rest) {
    const callback = rest.find((part) => typeof part === 'function');
    const [chunk, encoding] = rest.filter((part) => part !== callback);
    if (chunk !== undefined && chunk !== null) this.write(chunk, encoding);
    if (callback) process.nextTick(callback);
    return this;
  }

  destroy() {
    return this;
  }
}

class Input extends Readable {
  constructor(stdio) {
    super();
    this.fd = 0;
    this.stdio = stdio;
  }

  _read() {
    const line = this.stdio.readChunk();
    if (line.length) this.push(line);
    else if (!this.stdio.ask) this.push(null);
    else this.stdio.ask((text) => this.push(text === null ? null : `${text}\n`));
  }
}

class Stdio {
  constructor() {
    this.ask = null; // (callback) => void while the caller can answer
    this.input = null;
    this.hasText = false; // of descriptor 0: text of a run, not /dev/null
    this.copies = [null, null, null];
    [1, 2].forEach((fd) => {
      try {
        this.copies[fd] = fs.openSync(`/proc/self/fd/${fd}`, fs.constants.O_WRONLY);
      } catch (error) {
        this.copies[fd] = null; // without a copy a closed descriptor cannot be repaired
      }
    });
    const streams = { stdout: new Output(1), stderr: new Output(2) };
    Object.keys(streams).forEach((name) => {
      Object.defineProperty(process, name, { configurable: true, enumerable: true, get: () => streams[name] });
    });
    Object.defineProperty(process, 'stdin', {
      configurable: true,
      enumerable: true,
      get: () => {
        if (!this.input) this.input = new Input(this);
        return this.input;
      },
    });
  }

  // Before a run: what an earlier cell closed is opened again, and descriptor 0 gets this run's text.
  begin(text, ask) {
    this.ask = ask;
    if (this.input) this.input.pause();
    this.input = null;
    if (text !== null || this.hasText || !isOpen(0)) this.setInput(text);
    this.hasText = text !== null;
    [1, 2].forEach((fd) => {
      const copy = this.copies[fd];
      if (copy !== null && !isOpen(fd)) openAt(fd, `/proc/self/fd/${copy}`, fs.constants.O_WRONLY);
    });
  }

  // Into the session's own pipes, whatever the cell did to descriptors 1 and 2.
  mark(text) {
    const bytes = Buffer.from(text);
    [1, 2].forEach((fd) => {
      try {
        fs.writeSync(this.copies[fd] === null ? fd : this.copies[fd], bytes);
      } catch (error) {
        // closed, or full: the supervisor does not wait long for the mark
      }
    });
  }

  setInput(text) {
    if (isOpen(0)) fs.closeSync(0);
    let name = '/dev/null';
    if (text !== null) {
      name = path.join(os.tmpdir(), `.cella_stdin_${process.pid}_${Date.now()}`);
      try {
        fs.writeFileSync(name, text, { mode: 0o600, flag: 'wx' });
      } catch (error) {
        openAt(0, '/dev/null', fs.constants.O_RDONLY);
        process.stderr.write(`stdin is not available: ${error.message}\n`);
        return;
      }
    }
    openAt(0, name, fs.constants.O_RDONLY);
    if (text !== null) fs.unlinkSync(name);
  }

  readChunk() {
    const bytes = Buffer.allocUnsafe(65536);
    try {
      return bytes.subarray(0, fs.readSync(0, bytes, 0, bytes.length, null));
    } catch (error) {
      return bytes.subarray(0, 0);
    }
  }

  // A line of descriptor 0 without its end, or null at the end of the file. Byte by byte: the rest is not ours.
  readLine() {
    const bytes = [];
    const one = Buffer.allocUnsafe(1);
    for (;;) {
      let count = 0;
      try {
        count = fs.readSync(0, one, 0, 1, null);
      } catch (error) {
        count = 0;
      }
      if (count === 0 && bytes.length === 0) return null;
      if (count === 0 || one[0] === 10) return Buffer.from(bytes).toString('utf8');
      bytes.push(one[0]);
    }
  }
}

function isOpen(fd) {
  try {
    fs.fstatSync(fd);
    return true;
  } catch (error) {
    return false;
  }
}

// open(2) takes the lowest free descriptor: those below the wanted one are held until it comes.
function openAt(fd, name, flags) {
  const held = [];
  for (;;) {
    const opened = fs.openSync(name, flags);
    if (opened === fd) break;
    held.push(opened);
    if (opened > fd) break;
  }
  held.forEach((other) => fs.closeSync(other));
}

module.exports = { Stdio };
