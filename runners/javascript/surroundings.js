'use strict';
// What a cell finds around it: require and import() from the current directory, display(), prompt(), and a
// process.exit() that ends the run and not the session.

const Module = require('module');
const path = require('path');
const values = require('./values');

class ExitRequest {
  constructor(code) {
    this.code = code;
  }
}

function define(name, value) {
  Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });
}

class Surroundings {
  // session: { send, markText, valueLimit, ask(prompt, callback), askNow(prompt), exit(request), stdio }
  constructor(session) {
    this.directory = null;
    define('display', (value, options) => {
      const { id = null, update = false, metadata = {} } = options || {};
      const mime = values.displayed(value, session.valueLimit);
      const frame = { type: 'display', mime, metadata, display_id: id === null ? null : String(id), update: !!update };
      const mark = session.markText();
      session.send(mark ? { ...frame, mark } : frame);
    });
    define('prompt', (text = '') => session.prompt(String(text)));
    // Reserved words make import() a syntax of its own; source.js writes this name in its place.
    define('_imprt', (...parts) => this.importer(...parts));
    process.exit = (code) => {
      const request = new ExitRequest(Number(code === undefined ? process.exitCode : code) & 0xff);
      session.exit(request);
      throw request;
    };
  }

  // Relative names are those of the current directory, which a cell may have changed.
  refresh() {
    const directory = process.cwd();
    if (directory === this.directory) return;
    this.directory = directory;
    const file = path.join(directory, 'cell.js');
    const module = new Module(file, null);
    module.filename = file;
    module.paths = Module._nodeModulePaths(directory);
    const require = Module.createRequire(file);
    require.main = module;
    this.importer = makeImporter(file);
    define('require', require);
    define('module', module);
    define('exports', module.exports);
    define('__filename', file);
    define('__dirname', directory);
    process.argv = [process.execPath, file];
  }
}

// import() resolves from the file it is written in: hence a module that is said to lie in the cells' directory.
function makeImporter(file) {
  const module = new Module(file, null);
  module.filename = file;
  module.paths = Module._nodeModulePaths(path.dirname(file));
  try {
    module._compile('module.exports = (name, options) => import(name, options)', file);
  } catch (error) {
    module._compile('module.exports = (name) => import(name)', file); // before Node 16.14 import() takes one argument
  }
  return module.exports;
}

module.exports = { ExitRequest, Surroundings };
