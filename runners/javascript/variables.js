'use strict';
// Values of a run that its code finds as global variables. Large ones are in files, which are removed as they are read.

const fs = require('fs');

function take(path) {
  const data = fs.readFileSync(path);
  fs.unlinkSync(path);
  return data;
}

function assign(list) {
  for (const each of list) {
    let data = 'file' in each ? take(each.file) : each.data;
    if (each.kind !== 'bytes') data = String(data);
    globalThis[each.name] = each.kind === 'json' ? JSON.parse(data) : data;
  }
}

module.exports = { assign };
