'use strict';
// The session's socket (descriptor 3): frames of a 32-bit little-endian length and UTF-8 JSON.
// Frames arrive through the event loop. They leave by write(2) at once, so that what a busy loop displays is seen while
// it is busy; and waitFor() reads synchronously, for code that cannot await. Both use the one decoder: nothing is lost.

const fs = require('fs');
const net = require('net');

const { parse, stringify } = JSON;
const napCell = new Int32Array(new SharedArrayBuffer(4));

function nap(milliseconds) {
  Atomics.wait(napCell, 0, 0, milliseconds);
}

// The descriptor may be non-blocking: the event loop makes the socket so, and a child may do it to a shared pipe.
function writeAll(fd, bytes) {
  let offset = 0;
  while (offset < bytes.length) {
    try {
      offset += fs.writeSync(fd, bytes, offset, bytes.length - offset);
    } catch (error) {
      if (error.code === 'EAGAIN') nap(1);
      else if (error.code !== 'EINTR') throw error;
    }
  }
}

class Channel {
  constructor(fd, onFrame, onEnd) {
    this.fd = fd;
    this.onFrame = onFrame;
    this.chunks = [];
    this.available = 0;
    this.waiting = [];
    this.onEnd = onEnd;
    this.socket = new net.Socket({ fd, readable: true, writable: false });
    this.socket.on('data', (chunk) => {
      this.add(chunk);
      this.drain();
    });
    this.socket.on('error', onEnd);
    this.socket.on('close', onEnd);
    this.socket.on('end', onEnd);
  }

  send(frame) {
    const body = Buffer.from(stringify(frame), 'utf8');
    const bytes = Buffer.allocUnsafe(4 + body.length);
    bytes.writeUInt32LE(body.length, 0);
    body.copy(bytes, 4);
    try {
      writeAll(this.fd, bytes);
    } catch (error) {
      this.onEnd();
    }
  }

  // The next frame of that type, without returning to the event loop; others wait for their turn.
  waitFor(type) {
    const scratch = Buffer.allocUnsafe(65536);
    for (;;) {
      for (let frame = this.take(); frame; frame = this.take()) {
        if (frame.type === type) return frame;
        this.waiting.push(frame);
        setImmediate(() => this.drain());
      }
      try {
        const count = fs.readSync(this.fd, scratch, 0, scratch.length, null);
        if (count === 0) this.onEnd();
        this.add(Buffer.from(scratch.subarray(0, count)));
      } catch (error) {
        if (error.code === 'EAGAIN') nap(2);
        else if (error.code !== 'EINTR') this.onEnd();
      }
    }
  }

  // Whether a frame of that type is here for that run, though the event loop may not have read it; it keeps its turn.
  holds(type, run) {
    const scratch = Buffer.allocUnsafe(65536);
    try {
      for (;;) {
        const count = fs.readSync(this.fd, scratch, 0, scratch.length, null);
        if (count === 0) break;
        this.add(Buffer.from(scratch.subarray(0, count)));
      }
    } catch (error) {
      // that was all, or the event loop will find out why not
    }
    for (let frame = this.take(); frame; frame = this.take()) this.waiting.push(frame);
    if (this.waiting.length) setImmediate(() => this.drain());
    return this.waiting.some((frame) => frame.type === type && frame.run === run);
  }

  add(chunk) {
    this.chunks.push(chunk);
    this.available += chunk.length;
  }

  drain() {
    while (this.waiting.length) this.onFrame(this.waiting.shift());
    for (let frame = this.take(); frame; frame = this.take()) this.onFrame(frame);
  }

  take() {
    if (this.available < 4) return null;
    if (this.chunks[0].length < 4) this.chunks = [Buffer.concat(this.chunks)];
    const length = this.chunks[0].readUInt32LE(0);
    if (this.available < 4 + length) return null;
    const all = this.chunks.length === 1 ? this.chunks[0] : Buffer.concat(this.chunks);
    const rest = all.subarray(4 + length);
    this.chunks = rest.length ? [rest] : [];
    this.available = rest.length;
    return parse(all.toString('utf8', 4, 4 + length));
  }
}

module.exports = { Channel, nap, writeAll };
