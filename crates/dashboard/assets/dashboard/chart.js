// Two small charts: stacked bars, and lines. Each has a scale and a description; the figures themselves are in a table beside it.

import { h, svg } from './dom.js';
import { count } from './figures.js';

const HEIGHT = 200;
const LEFT = 52;
const BOTTOM = 22;
const TOP = 10;

// The width of a chart of a group: two beside each other where there is room.
export function chartWidth(place) {
  const width = Math.max(place.clientWidth, 280);
  return width > 900 ? width / 2 - 16 : width;
}

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

// `series`: [class, name, points]; a point is a number, or null where nothing is known, the newest last. `least` is the smallest scale,
// `most` a fixed one, `labels` has a text for each place.
export function lines(description, series, { room, width, least = 1, most = null, labels = [] }) {
  const known = series.flatMap(([, , points]) => points.filter((one) => one !== null));
  const top = most ?? scale(Math.max(...known, least));
  const step = (width - LEFT) / Math.max(room - 1, 1);
  const drawn = series.flatMap(([style, , points]) => runs(points, room - points.length).map((run) => {
    const path = run.map(([index, value]) => `${LEFT + index * step},${place(value, top)}`).join(' ');
    return svg('polyline', { class: `line ${style}`, points: path });
  }));
  const texts = named(labels, width).map((index) => svg('text', { x: LEFT + index * step, y: HEIGHT - 5 }, labels[index]));
  return h('div', {}, frame(description, top, width, [...drawn, ...texts]), series.length > 1 ? legend(series) : null);
}

// The points without gaps between them, with their places. One point alone becomes a short line.
function runs(points, first) {
  const all = [];
  points.forEach((value, index) => {
    if (value === null) {
      return;
    }
    const isNext = index > 0 && points[index - 1] !== null;
    isNext ? all.at(-1).push([first + index, value]) : all.push([[first + index, value]]);
  });
  return all.map((run) => (run.length > 1 ? run : [[run[0][0] - 0.4, run[0][1]], run[0]]));
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
