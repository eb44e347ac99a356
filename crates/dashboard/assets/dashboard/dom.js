// Elements. Text from outside becomes text nodes here and nothing else; there is no other way in this code to put text in.

const SVG = 'http://www.w3.org/2000/svg';

// An element with attributes and children; strings and numbers become text. `onclick` and such take functions.
export function h(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

// The same for drawings.
export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) {
      element.addEventListener(name.slice(2), value);
    } else if (value === true) {
      element.setAttribute(name, '');
    } else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, String(value));
    }
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// Text with `names` between backticks.
export function prose(text) {
  return text.split('`').map((part, index) => (index % 2 === 1 ? h('code', {}, part) : part));
}

// A table in a region that scrolls. `columns`: [heading, class]; `rows`: lists of cells. On a phone each row becomes a block with the
// headings before its cells; the roles keep it a table for screen readers.
export function table(caption, columns, rows, empty) {
  if (rows.length === 0) {
    return h('p', { class: 'quiet' }, empty);
  }
  const head = columns.map(([heading, style]) => h('th', { scope: 'col', role: 'columnheader', class: style }, heading));
  const body = rows.map((cells) =>
    h('tr', { role: 'row' }, cells.map((cell, index) => h('td', { role: 'cell', class: columns[index][1], 'data-label': columns[index][0] }, cell ?? ''))));
  const whole = h('table', { role: 'table' }, h('caption', {}, caption),
    h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, head)), h('tbody', { role: 'rowgroup' }, body));
  return h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption }, whole);
}

// Names with large figures: [name, figure, more].
export function figures(all) {
  const cells = all.map(([name, figure, more]) =>
    h('div', {}, h('dt', {}, name), h('dd', {}, figure), more ? h('dd', { class: 'more' }, more) : null));
  return h('dl', { class: 'figures' }, cells);
}

// Names with what is known about them; those without a value are left out.
export function facts(all) {
  const known = all.filter((pair) => pair[1] !== null && pair[1] !== undefined && pair[1] !== '');
  return h('dl', { class: 'facts' }, known.map(([name, value]) => [h('dt', {}, name), h('dd', {}, value)]).flat());
}

// A labelled input.
export function field(id, label, attributes = {}) {
  return h('div', { class: 'field' }, h('label', { for: id }, label), h('input', { id, name: id, autocomplete: 'off', ...attributes }));
}

// Asks before something is done. Resolves to whether it is to be done.
export function confirmed(title, text, action) {
  const dialog = document.getElementById('confirm');
  const yes = document.getElementById('confirm-yes');
  const no = document.getElementById('confirm-no');
  document.getElementById('confirm-title').textContent = title;
  document.getElementById('confirm-text').textContent = text;
  yes.textContent = action;
  return new Promise((resolve) => {
    yes.onclick = () => dialog.close('yes');
    no.onclick = () => dialog.close('no');
    dialog.returnValue = 'no';
    dialog.onclose = () => resolve(dialog.returnValue === 'yes');
    dialog.showModal();
    no.focus();
  });
}

// Shows what became of something, and says it to screen readers.
export function tell(text) {
  show('result', text);
  show('trouble', '');
}

export function showError(text) {
  show('trouble', text);
}

function show(id, text) {
  const element = document.getElementById(id);
  element.hidden = text === '';
  if (element.textContent !== text) {
    element.textContent = text;
  }
}

export function quiet() {
  show('result', '');
  show('trouble', '');
}
