'use strict';
// What a cell's text needs before V8's REPL mode takes it. REPL mode already lets a later `let` or `class` replace an
// earlier one and knows top-level await; it does not let a `const` become a `let`, knows no import statements, and
// Node gives its scripts no import(). So, at the top level only: `const` becomes `let` and import statements become
// awaited imports; everywhere: import() becomes a call of `_imprt`. Lines always stay where they are, and columns
// wherever the replacement is as long as what it replaces.

const IDENTIFIER = /[\p{ID_Start}$_][\p{ID_Continue}$\u200c\u200d]*/uy;
const NUMBER = /(?:0[xXoObB][\da-fA-F_]+n?|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d[\d_]*)?n?)/y;
const BLANK = /[\s\ufeff]+/y;
const REGEXP = /\/(?![*/])(?:[^\\/[\n\r]|\\.|\[(?:[^\]\\\n\r]|\\.)*\])+\/[a-z]*/y;
const QUOTED = /'(?:[^'\\\n\r]|\\[^])*'|"(?:[^"\\\n\r]|\\[^])*"/y;
// After these words a slash begins a regular expression; after any other word, a division.
const BEFORE_OPERAND = new Set(
  'return typeof instanceof in of new delete void throw case do else await yield'.split(' '));
const HEADS = new Set(['if', 'while', 'for', 'with']);

function match(pattern, text, at) {
  pattern.lastIndex = at;
  const found = pattern.exec(text);
  return found ? found[0] : null;
}

// Tokens of JavaScript, as far as brackets, words and strings need it: { kind, text, start, end, depth }.
// `open` tells what is left open at the end: '(' '[' '{' '`' '/*', or null; `excess`, that more was closed than opened.
function tokenize(code) {
  const tokens = [];
  const stack = []; // open brackets: { text, head } and templates
  let at = 0;
  let open = null;
  let excess = false;
  if (code.startsWith('#!')) at = (code.indexOf('\n') + 1 || code.length + 1) - 1;

  const last = () => tokens[tokens.length - 1];
  const push = (kind, end, extra) => {
    tokens.push({ kind, text: code.slice(at, end), start: at, end, depth: stack.length, ...extra });
    at = end;
  };
  const operandExpected = () => {
    const token = last();
    if (!token) return true;
    if (token.kind === 'word') return BEFORE_OPERAND.has(token.text) && !token.member;
    if (token.kind !== 'mark') return false;
    if (token.text === ')') return token.head;
    if (token.text === ']') return false;
    if (token.text === '}') return token.block;
    return !(token.text === '++' || token.text === '--');
  };
  // The text of a template up to its end or to its next ${; `at` stands behind the opening ` or }.
  const template = (from) => {
    let index = from;
    while (index < code.length) {
      const char = code[index];
      if (char === '\\') index += 2;
      else if (char === '`') return { end: index + 1, hole: false };
      else if (char === '$' && code[index + 1] === '{') return { end: index + 2, hole: true };
      else index++;
    }
    return null;
  };

  while (at < code.length) {
    const char = code[at];
    const blank = match(BLANK, code, at);
    if (blank) {
      at += blank.length;
      continue;
    }
    if (char === '/' && code[at + 1] === '/') {
      const end = code.slice(at).search(/[\n\r\u2028\u2029]/);
      at = end < 0 ? code.length : at + end;
      continue;
    }
    if (char === '/' && code[at + 1] === '*') {
      const end = code.indexOf('*/', at + 2);
      if (end < 0) return { tokens, open: '/*' };
      at = end + 2;
      continue;
    }
    const word = match(IDENTIFIER, code, at) || (char === '#' && match(IDENTIFIER, code, at + 1) && '#');
    if (word) {
      const before = last();
      push('word', at + word.length, { member: !!before && (before.text === '.' || before.text === '?.') });
      continue;
    }
    if (/\d/.test(char) || (char === '.' && /\d/.test(code[at + 1] || ''))) {
      push('number', at + match(NUMBER, code, at).length);
      continue;
    }
    if (char === '"' || char === "'") {
      const text = match(QUOTED, code, at);
      if (!text) return { tokens, open: null };
      push('string', at + text.length);
      continue;
    }
    if (char === '`' || (char === '}' && stack.length && stack[stack.length - 1].text === '`')) {
      if (char === '}') stack.pop();
      const part = template(at + 1);
      if (!part) return { tokens, open: '`' };
      push('string', part.end);
      if (part.hole) {
        stack.push({ text: '`' });
        tokens.push({ kind: 'mark', text: '${', start: at, end: at, depth: stack.length });
      }
      continue;
    }
    if (char === '/' && operandExpected()) {
      const text = match(REGEXP, code, at);
      if (text) {
        push('regexp', at + text.length);
        continue;
      }
    }
    if ('([{'.includes(char)) {
      const before = last();
      const head = char === '(' && !!before && before.kind === 'word' && !before.member && HEADS.has(before.text);
      // A brace where an operand may stand is a block unless something wants a value there.
      const block = char === '{' && (!before || before.text === ';' || before.text === ')' || before.text === '=>' ||
        (before.text === '{' && before.block) || (before.text === '}' && before.block) ||
        (before.kind === 'word' && /^(else|do|try|finally)$/.test(before.text)) || before.text === ':');
      const token = { head, block };
      push('mark', at + 1, token);
      stack.push({ text: char, ...token });
      continue;
    }
    if (')]}'.includes(char)) {
      const opener = stack.pop();
      if (!opener) excess = true;
      push('mark', at + 1, { head: !!opener && opener.head, block: !!opener && opener.block });
      continue;
    }
    const pair = code.slice(at, at + 2);
    push('mark', at + (['++', '--', '=>', '?.'].includes(pair) ? 2 : 1));
  }
  if (stack.length) open = stack[stack.length - 1].text;
  return { tokens, open, excess };
}

function apply(code, edits) {
  let result = '';
  let at = 0;
  for (const { start, end, text } of edits) {
    result += code.slice(at, start) + text;
    at = end;
  }
  return result + code.slice(at);
}

const linesOf = (text) => '\n'.repeat(text.split('\n').length - 1);

// `import a, { b as c } from 'x' with { ... };` from tokens[index] on: its replacement, or null if it is none.
function importStatement(code, tokens, index) {
  let end = index + 1;
  while (end < tokens.length && tokens[end].kind !== 'string') {
    if (!/^[\w$,{}*]|[^\x00-\x7f]/.test(tokens[end].text)) return null;
    end++;
  }
  if (end >= tokens.length) return null;
  const clause = tokens.slice(index + 1, end);
  let options = '';
  let last = end;
  const next = tokens[end + 1];
  if (next && (next.text === 'with' || next.text === 'assert') && tokens[end + 2] && tokens[end + 2].text === '{') {
    last = end + 2;
    while (last < tokens.length && tokens[last].text !== '}') last++;
    if (last >= tokens.length) return null;
    options = `, { ${next.text}: ${code.slice(tokens[end + 2].start, tokens[last].end)} }`;
  }
  const source = `await _imprt(${tokens[end].text}${options})`;
  const words = clause.map((token) => token.text);
  let text = source;
  if (words.length) {
    if (words.pop() !== 'from') return null;
    const names = words.join(' ').replace(/\b(default|[\w$]+) as /g, '$1: ');
    const star = /^(?:([\w$]+) , )?\* as ([\w$]+)$/.exec(words.join(' '));
    const named = /^(?:([^\s{]+) ?,? ?)?(?:\{(.*)\})?$/.exec(names);
    if (star) text = `let ${star[2]} = ${source}${star[1] ? `, { default: ${star[1]} } = ${star[2]}` : ''}`;
    else if (named) {
      const parts = [named[1] ? `default: ${named[1]}` : '', (named[2] || '').replace(/[,\s]+$/, '')];
      text = `let { ${parts.filter(Boolean).join(', ')} } = ${source}`;
    } else return null;
  }
  const start = tokens[index].start;
  const stop = tokens[last].end;
  return { start, end: stop, text: `${text};${linesOf(code.slice(start, stop))}` };
}

function prepare(code) {
  if (code.startsWith('#!')) code = `//${code.slice(2)}`;
  if (!/\b(?:const|import|export)\b/.test(code)) return code;
  const { tokens } = tokenize(code);
  const edits = [];
  tokens.forEach((token, index) => {
    if (token.kind !== 'word' || token.member) return;
    const next = tokens[index + 1] || { text: '' };
    const top = token.depth === 0 && next.text !== ':';
    if (token.text === 'const' && top) edits.push({ ...token, text: 'let  ' });
    else if (token.text === 'import' && next.text === '(') edits.push({ ...token, text: '_imprt' });
    else if (token.text === 'import' && top && next.text !== '.') {
      const edit = importStatement(code, tokens, index);
      if (edit) edits.push(edit);
    } else if (token.text === 'export' && top && /^(?:const|let|var|class|function|async)$/.test(next.text)) {
      edits.push({ ...token, text: '      ' });
    }
  });
  return edits.length ? apply(code, edits) : code;
}

const DECLARATION = /^(?:let|var|class|function)$/;

// A name that stands as `var` or function (a property of the global object) cannot be declared by `let` again, nor the
// other way round. Rewrites the cell's own declaration of `name` to the kind that stands. A function is taken out of
// the text (`hoisted` is then to be evaluated first), so that it can be called above its place, as before.
function redeclare(code, name, standsAsProperty) {
  const { tokens } = tokenize(code);
  for (let index = 0; index < tokens.length; index++) {
    const token = tokens[index];
    if (token.depth !== 0 || token.kind !== 'word' || token.member || !DECLARATION.test(token.text)) continue;
    const before = tokens[index - 1];
    if (token.text === 'let' || token.text === 'var') {
      if ((token.text === 'var') === standsAsProperty || !declares(tokens, index, name)) continue;
      return { code: apply(code, [{ ...token, text: standsAsProperty ? 'var' : 'let' }]) };
    }
    let at = index + 1;
    if (tokens[at] && tokens[at].text === '*') at++;
    if (!tokens[at] || tokens[at].text !== name) continue;
    let close = at;
    while (close < tokens.length && !(tokens[close].text === '}' && tokens[close].depth === 0)) close++;
    if (close >= tokens.length) continue;
    if (token.text === 'class') {
      if (!standsAsProperty) continue;
      const end = tokens[close].end;
      return { code: apply(code, [
        { start: token.start, end: token.start, text: `var ${name} = ` }, { start: end, end, text: ';' },
      ]) };
    }
    if (standsAsProperty) continue;
    const start = before && before.text === 'async' ? before.start : token.start;
    const body = code.slice(start, tokens[close].end);
    return {
      code: apply(code, [{ start, end: tokens[close].end, text: body.replace(/[^\n]/g, ' ') }]),
      hoisted: `${code.slice(0, start).replace(/[^\n]/g, ' ')}${name} = ${body}`,
    };
  }
  return null;
}

// Whether the declaration at tokens[index] names `name`, as far as its statement goes.
function declares(tokens, index, name) {
  for (let at = index + 1; at < tokens.length; at++) {
    const token = tokens[at];
    if (token.depth === 0 && (token.text === ';' || DECLARATION.test(token.text))) return false;
    if (token.kind === 'word' && token.text === name && !token.member) return true;
  }
  return false;
}

module.exports = { prepare, redeclare, tokenize };
