// Whether visitors are served, then what the server does now, renewed by every sample, and the last day.

import { figures, h } from './dom.js';
import { chartWidth, lines } from './chart.js';
import { lastDay } from './day.js';
import { bytes, count, duration, milliseconds, percent, several } from './figures.js';
import { verdict } from './verdict.js';

// Samples of the last minutes.
const ROOM = 90;
const DAY_MS = 60_000;
// The samples over which the charts take ratios and times, and the time above which they do not rise.
const SMOOTH = 10;
const MOST_US = 10_000_000;
const samples = [];

function of(status, name, key) {
  const site = status.sites.find((one) => one.name === name);
  return (site ?? status)[key];
}

function ratio(responses) {
  const fromMemory = responses.hit + responses.stale;
  const all = fromMemory + responses.miss + responses.pass;
  return all > 0 ? fromMemory / all : null;
}

function sum(all, each) {
  return all.reduce((total, one) => total + each(one), 0);
}

function upstreams({ status, site }) {
  return status.sites.filter((one) => !site || one.name === site).flatMap((one) => one.upstreams);
}

// Adds a sample, whichever view is open.
export function record(context) {
  const { status, site } = context;
  const load = upstreams(context);
  const sample = {
    at: performance.now(), uptime: status.uptime_s, site,
    responses: of(status, site, 'responses'), times: of(status, site, 'times'),
    busy: sum(load, (one) => one.in_flight), waiting: sum(load, (one) => one.waiting),
  };
  const last = samples.at(-1);
  // A restart and another site begin the counts anew.
  if (last && (sample.uptime < last.uptime || sample.site !== last.site)) {
    samples.length = 0;
  }
  samples.push(sample);
  if (samples.length > ROOM) {
    samples.shift();
  }
}

// Requests per second between samples.
function rates() {
  return samples.slice(1).map((sample, index) => {
    const before = samples[index];
    const seconds = Math.max((sample.at - before.at) / 1000, 0.1);
    return Math.max(sample.responses.requests - before.responses.requests, 0) / seconds;
  });
}

// `of` of each sample and of the one some samples before, so that single requests do not make peaks.
function recent(of) {
  return samples.map((sample, index) => of(samples[Math.max(index - SMOOTH, 0)], sample));
}

function ratioBetween(first, last) {
  const rise = (word) => Math.max((last.responses[word] ?? 0) - (first.responses[word] ?? 0), 0);
  return ratio(Object.fromEntries(['hit', 'stale', 'miss', 'pass'].map((word) => [word, rise(word)])));
}

// How much a count of responses rose in the last minutes.
function rise(word) {
  return Math.max((samples.at(-1).responses[word] ?? 0) - (samples[0].responses[word] ?? 0), 0);
}

// The bound below which a share of the times between two samples lies, in microseconds; null without any. A server of an earlier
// version does not know the times of the cache.
function quantile(kind, share, { times: first } = samples[0], { times: last } = samples.at(-1)) {
  if (!first?.[kind] || !last?.[kind]) {
    return null;
  }
  const counts = last[kind].map((all, index) => all - first[kind][index]);
  let rest = sum(counts, (one) => one) * share;
  if (rest <= 0) {
    return null;
  }
  const index = counts.findIndex((one) => (rest -= one) <= 0);
  return last.bounds_us[index] ?? Infinity;
}

function latency(kind) {
  const text = (share) => milliseconds(quantile(kind, share));
  return [text(0.5), `95 %: ${text(0.95)}`];
}

// The same for the chart, in milliseconds.
function latencies(kind) {
  const points = (share) => recent((first, last) => {
    const us = quantile(kind, share, first, last);
    return us === null ? null : Math.min(us, MOST_US) / 1000;
  });
  return [['p50', 'Half of them', points(0.5)], ['p95', '95 %', points(0.95)]];
}

function rows(context) {
  const { status, site } = context;
  const load = upstreams(context);
  const rate = rates().at(-1);
  const responses = of(status, site, 'responses');
  const [errors, requests] = [rise('server_errors'), rise('requests')];
  return [
    ['Requests per second', rate === undefined ? '…' : rate.toFixed(1), `${count(responses.requests)} since the start`],
    ['Hit ratio', percent(ratioBetween(samples[0], samples.at(-1))), `since the start: ${percent(ratio(responses))}`],
    ['Errors (5xx)', requests > 0 ? `${count(errors)} (${percent(errors / requests)})` : count(errors), `${count(responses.server_errors)} since the start`],
    ['Half of the hits', ...latency('cache')],
    ['Half of the answers of PHP', ...latency('upstream')],
    ['PHP slots in use', `${sum(load, (one) => one.in_flight)} of ${sum(load, (one) => one.slots)}`, `${sum(load, (one) => one.waiting)} waiting`],
    ['Refused or failed', count(rise('refused')), `${count(responses.refused)} since the start, ${several(sum(load.flatMap((one) => one.servers), (one) => one.failures), 'upstream failure')}`],
  ];
}

// What the machine uses; only the server's token sees more than the time.
function machine(status) {
  if (!status.memory) {
    return [['Running for', duration(status.uptime_s)]];
  }
  const { memory, disk } = status;
  return [
    ['Memory', bytes(memory.bytes), `of ${bytes(memory.limit)}, ${count(memory.entries)} entries`],
    ['Disk', disk ? bytes(disk.bytes) : 'off', disk ? `of ${bytes(disk.limit)}, ${disk.state}` : 'no disk is configured'],
    ['Connections', count(status.connections), `${count(status.upgraded_connections)} upgraded`],
    ['Running for', duration(status.uptime_s)],
  ];
}

function chart(title, series, width, scale) {
  const newest = series.map(([, name, points]) => `${name}: ${points.at(-1)?.toFixed(1) ?? 'not known yet'}`).join(', ');
  return h('div', {}, h('h3', {}, title), lines(`${title}, last three minutes; newest: ${newest}`, series, { room: ROOM, width, ...scale }));
}

function draw(place, context) {
  const width = chartWidth(place);
  const ratios = recent(ratioBetween).map((one) => (one === null ? null : 100 * one));
  place.replaceChildren(
    h('p', { class: 'quiet' }, 'Figures of the last three minutes, renewed every two seconds.'),
    figures(rows(context)),
    h('h2', {}, 'Last three minutes'),
    h('div', { class: 'charts' },
      chart('Requests per second', [['p50', 'Requests', rates()]], width),
      chart('Hit ratio, %', [['p50', 'Hit ratio', ratios]], width, { most: 100 }),
      chart('Time of hits, ms', latencies('cache'), width, { least: 0.1 }),
      chart('Time of PHP, ms', latencies('upstream'), width),
      chart('PHP: slots in use, and the queue', [['p50', 'In use', samples.map((one) => one.busy)], ['p95', 'Waiting', samples.map((one) => one.waiting)]], width)),
  );
}

// Screen readers announce the verdict when it changes, not with every sample.
function judge(place, { status, site }) {
  const { state, summary, problems } = status.health;
  const key = JSON.stringify([state, summary, site, problems.map((one) => one.problem)]);
  if (place.dataset.key !== key || problems.length > 0) {
    place.setAttribute('aria-live', place.dataset.key === key ? 'off' : 'polite');
    place.dataset.key = key;
    place.replaceChildren(verdict(status.health, site));
  }
}

let parts = null;

async function drawDay(context) {
  const { day } = parts;
  day.dataset.drawn = performance.now();
  const drawn = await lastDay(context.site, Math.max(day.clientWidth, 280), chartWidth(day));
  day.replaceChildren(h('h2', {}, 'Last day'), ...drawn);
}

export const overview = {
  id: 'overview',
  title: 'Overview',
  async show(element, context) {
    parts = { verdict: h('div', {}), now: h('div', {}), day: h('div', {}), machine: h('div', {}) };
    element.replaceChildren(parts.verdict, parts.now, parts.day, h('h2', {}, 'Machine'), parts.machine);
    record(context);
    judge(parts.verdict, context);
    draw(parts.now, context);
    parts.machine.replaceChildren(figures(machine(context.status)));
    await drawDay(context);
  },
  sample(context) {
    judge(parts.verdict, context);
    draw(parts.now, context);
    parts.machine.replaceChildren(figures(machine(context.status)));
    if (performance.now() - Number(parts.day.dataset.drawn) > DAY_MS) {
      drawDay(context).catch(() => { /* the next sample says that the server does not answer */ });
    }
  },
};
