'use strict';
// Completion, inspection and completeness of a cell's text, from the live context and without running anything that
// has side effects. Cursors count characters (code points), as the protocol does; JavaScript's strings do not.

const vm = require('vm');
const source = require('./source');
const values = require('./values');

const PATH = /(?:[\p{ID_Start}$_][\p{ID_Continue}$]*(?:\?)?\.)*(?:[\p{ID_Start}$_][\p{ID_Continue}$]*)?$/u;
const KEYWORDS = ('async await break case catch class const continue debugger default delete do else export extends ' +
  'false finally for function if import in instanceof let new null of return static super switch this throw true try ' +
  'typeof undefined var void while with yield').split(' ');
const MATCHES_LIMIT = 1000;

const length = (text) => Array.from(text).length;
const upTo = (code, cursor) => Array.from(code).slice(0, cursor).join('');

function namesOf(value) {
  const names = new Set();
  for (let object = Object(value); object !== null && names.size < 20000; object = Object.getPrototypeOf(object)) {
    Object.getOwnPropertyNames(object).forEach((name) => names.add(name));
  }
  return [...names].filter((name) => /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u.test(name));
}

class Assistant {
  constructor(evaluator) {
    this.evaluator = evaluator;
  }

  complete({ code, cursor }) {
    const before = upTo(code, cursor);
    const chain = PATH.exec(before)[0];
    const dot = chain.lastIndexOf('.');
    const prefix = chain.slice(dot + 1);
    let names;
    if (dot >= 0) {
      const value = this.evaluator.peek(`(${chain.slice(0, dot).replace(/\?$/, '')})`);
      names = value === undefined || value === null ? [] : namesOf(value);
    } else if (before.length > chain.length && before[before.length - chain.length - 1] === '.') {
      names = [];
    } else {
      names = [...new Set([...this.evaluator.lexicalNames(), ...namesOf(globalThis), ...KEYWORDS])];
    }
    const matches = names.filter((name) => name.startsWith(prefix) && !/^(?:__cella_runner|_imprt)$/.test(name));
    const end = length(before);
    return { matches: matches.sort().slice(0, MATCHES_LIMIT), start: end - length(prefix), end };
  }

  inspect({ code, cursor }) {
    const before = upTo(code, cursor);
    const rest = /^[\p{ID_Continue}$]*/u.exec(code.slice(before.length))[0];
    const chain = (PATH.exec(before)[0] + rest).replace(/\.$/, '');
    const value = chain ? this.evaluator.peek(`(${chain})`) : undefined;
    if (value === undefined) return { found: false, text: '' };
    const text = typeof value === 'function' ? Function.prototype.toString.call(value) : values.inspect(value, 10000);
    return { found: true, text: values.cap(text, 20000) };
  }

  isComplete({ code }) {
    const { open, excess } = source.tokenize(code);
    if (excess) return { status: 'invalid' };
    if (open !== null) return { status: 'incomplete' };
    const prepared = source.prepare(code);
    const lastLine = prepared.split('\n').length + 2;
    try {
      new vm.Script(`(async () => {\n${prepared}\n})`, { filename: 'cell' });
      return { status: 'complete' };
    } catch (error) {
      const atEnd = Number((/^cell:(\d+)/.exec(error.stack) || [])[1]) >= lastLine;
      return { status: atEnd ? 'incomplete' : 'invalid' };
    }
  }
}

module.exports = { Assistant };
