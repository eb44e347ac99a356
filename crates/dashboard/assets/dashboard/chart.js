// Two small charts: stacked bars, and a line. Each has a scale and a description; the figures themselves are in a table beside it.

import { h, svg } from './dom.js';
import { count } from './figures.js';

const HEIGHT = 200;
const LEFT = 52;
const BOTTOM = 22;
const TOP = 10;

// `bars`: { label, parts: [numbers] }; `kinds`: [class, name] of each part.
export function bars(description, kinds, all, width) {
  const most = scale(Math.max(...all.map((bar) => sum(bar.parts)), 1));
  const step = (width - LEFT) / Math.max(all.length, 1);
  const drawn = all.flatMap((bar, index) => {
    let below = 0;
    return bar.parts.map((part, kind) => {
      const y = place(below + part, most);
      const height = place(below, most) - y;
      below += part;
      return part > 0
        ? svg('rect', { class: kinds[kind][0], x: LEFT + index * step, y, width: Math.max(step - 1, 1), height })
        : null;
    });
  });
  const labels = named(all, width).map((index) =>
    svg('text', { x: LEFT + index * step, y: HEIGHT - 5 }, all[index].label));
  return h('div', {}, frame(description, most, width, [...drawn, ...labels]), legend(kinds));
}

// `points`: numbers, the newest last.
export function line(description, points, room, width) {
  const most = scale(Math.max(...points, 1));
  const step = (width - LEFT) / Math.max(room - 1, 1);
  const first = room - points.length;
  const path = points.map((value, index) => `${LEFT + (first + index) * step},${place(value, most)}`).join(' ');
  return frame(description, most, width, [svg('polyline', { class: 'line', points: path })]);
}

function frame(description, most, width, drawn) {
  const lines = [0, most / 2, most].map((value) => {
    const y = place(value, most);
    return [
      svg('line', { class: 'grid', x1: LEFT, x2: width, y1: y, y2: y }),
      svg('text', { x: LEFT - 6, y: y + 4, 'text-anchor': 'end' }, count(value)),
    ];
  });
  const attributes = { class: 'chart', viewBox: `0 0 ${width} ${HEIGHT}`, role: 'img', 'aria-label': description };
  return svg('svg', attributes, ...lines.flat(), ...drawn);
}

function legend(kinds) {
  const rows = kinds.map(([style, name]) => {
    const sample = svg('svg', { class: 'chart', viewBox: '0 0 10 10', 'aria-hidden': 'true' },
      svg('rect', { class: style, width: 10, height: 10 }));
    return h('li', {}, sample, ' ', name);
  });
  return h('ul', { class: 'legend' }, rows);
}

// Every how-many-th bar has its label.
function named(all, width) {
  const every = Math.max(1, Math.ceil((all.length * 70) / (width - LEFT)));
  return [...all.keys()].filter((index) => index % every === 0 && index < all.length - every / 2);
}

function place(value, most) {
  return HEIGHT - BOTTOM - (value / most) * (HEIGHT - BOTTOM - TOP);
}

// The next round number above.
function scale(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 10].map((factor) => factor * power).find((round) => round >= value);
}

function sum(numbers) {
  return numbers.reduce((all, number) => all + number, 0);
}
