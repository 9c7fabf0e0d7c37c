'use strict';
// How values and errors are shown: text, MIME bundles, and stacks without the runner's own frames.

const path = require('path');
const util = require('util');

const JSON_LIMIT = 64 * 1024;
const JSON_NODES = 20000;
const MOST_TYPES = 64; // the supervisor takes the text alone of a bundle with more
const SOURCES_KEPT = 64;
const { stringify } = JSON;

// A sourceURL ends at a blank, so V8 knows a cell by a name without any; shown is the real one.
const shownNames = new Map();
const sources = new Map();

function nameSource(file, code) {
  const name = file.replace(/[\s'"]/g, '_');
  if (file !== name && shownName(name) !== file) shownNames.set(name, file);
  sources.delete(name);
  sources.set(name, code);
  if (sources.size > SOURCES_KEPT) {
    const oldest = sources.keys().next().value;
    sources.delete(oldest);
  }
  return name;
}

function shownName(name) {
  return shownNames.get(name) || name.replace(/^cell_(\d+)$/, 'cell $1');
}

function showNames(text) {
  return text.replace(/[^\s()]+?(?=:\d+)/g, shownName);
}

function cap(text, limit) {
  if (!limit || Buffer.byteLength(text) <= limit) return text;
  const bytes = Buffer.from(text).subarray(0, limit);
  let end = bytes.length;
  while (end > 0 && (bytes[end - 1] & 0xc0) === 0x80) end--;
  if (end > 0 && bytes[end - 1] >= 0x80) end--;
  return `${bytes.toString('utf8', 0, end)}…`;
}

function inspect(value, limit) {
  try {
    return util.inspect(value, { maxStringLength: limit || null, depth: 4 });
  } catch (error) {
    return `[a value that cannot be shown: ${String(error && error.message)}]`;
  }
}

function isPlain(value) {
  if (value === null || typeof value !== 'object' || util.types.isProxy(value)) return false;
  if (Array.isArray(value)) return true;
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function json(value) {
  let nodes = 0;
  try {
    const text = stringify(value, (key, part) => {
      if (++nodes > JSON_NODES) throw new RangeError('too large');
      return part;
    });
    return text !== undefined && Buffer.byteLength(text) < JSON_LIMIT ? text : null;
  } catch (error) {
    return null;
  }
}

function bundle(value, limit) {
  const mime = { 'text/plain': cap(inspect(value, limit), limit) };
  const data = isPlain(value) ? json(value) : null;
  if (data !== null) mime['application/json'] = data;
  return mime;
}

function isBundle(value) {
  if (!isPlain(value) || Array.isArray(value)) return false;
  const keys = Object.keys(value);
  return keys.length > 0 && keys.length <= MOST_TYPES && keys.every((key) => /^[\w.+-]+\/[\w.+-]+$/.test(key));
}

function mimeText(value) {
  if (typeof value === 'string') return value;
  if (ArrayBuffer.isView(value)) {
    return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64');
  }
  const text = stringify(value);
  return text === undefined ? String(value) : text;
}

// What display() shows: a MIME bundle as it is, an object that makes one of itself, or the value's text.
function displayed(value, limit) {
  const maker = value !== null && typeof value === 'object' &&
    [value[Symbol.for('Jupyter.display')], value.toMimeBundle].find((part) => typeof part === 'function');
  const made = maker ? maker.call(value) : value;
  if (!isBundle(made)) return bundle(made, limit);
  return Object.fromEntries(Object.entries(made).map(([type, part]) => [type, mimeText(part)]));
}

const NODES_OWN_FRAME = /\((?:node:)?internal\/(?:process\/task_queues|timers)\b/;

// The evaluator enters a cell through Session.post: that frame and all below it are the runner's.
function cleanStack(text) {
  let below = false;
  const lines = text.split('\n').filter((line) => {
    const frame = /^\s+at /.test(line);
    if (!frame) below = false;
    else if (/ Session\.post \((?:node:)?inspector/.test(line)) below = true;
    return !below && !(frame && (line.includes(__dirname + path.sep) || NODES_OWN_FRAME.test(line)));
  });
  return lines.join('\n');
}

function excerpt(name, line, column) {
  const text = (sources.get(name) || '').split('\n')[line - 1];
  if (text === undefined || text.length > 500) return '';
  const indent = text.slice(0, column - 1).replace(/[^\t]/g, ' ');
  return `${shownName(name)}:${line}\n${text}\n${indent}^\n\n`;
}

function isError(value) {
  return util.types.isNativeError(value) || value instanceof Error;
}

// `position` ([line, column] from 0 in the source `name`) is where code that does not compile went wrong.
function describeError(thrown, limit, name, position) {
  try {
    if (!isError(thrown)) {
      const text = cap(inspect(thrown, limit), limit);
      return { name: 'Uncaught', message: text, traceback: `Uncaught ${text}` };
    }
    let stack = cleanStack(inspect(thrown, limit));
    let where = position && [name, position[0] + 1, position[1] + 1];
    if (position) stack = `${thrown.name}: ${thrown.message}`;
    if (!where) {
      const frame = /^\s+at (?:.*\()?([^\s()]+):(\d+):(\d+)\)?$/m.exec(stack);
      if (frame) where = [frame[1], Number(frame[2]), Number(frame[3])];
    }
    const source = where ? excerpt(...where) : '';
    return {
      name: String(thrown.name || 'Error'),
      message: cap(String(thrown.message), limit),
      traceback: cap(showNames(source + stack), limit),
    };
  } catch (error) {
    return { name: 'Error', message: 'an error that cannot be shown', traceback: '' };
  }
}

module.exports = { bundle, cap, describeError, displayed, inspect, nameSource };
