// Whether visitors are served, then what the server does now, renewed by every sample, and the last day.

import { figures, h } from './dom.js';
import { line } from './chart.js';
import { lastDay } from './day.js';
import { bytes, count, duration, milliseconds, percent, several } from './figures.js';
import { verdict } from './verdict.js';

// Samples of the last minutes.
const ROOM = 90;
const DAY_MS = 60_000;
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

// How much a count of responses rose in the last minutes.
function rise(word) {
  return Math.max((samples.at(-1).responses[word] ?? 0) - (samples[0].responses[word] ?? 0), 0);
}

// The bound below which a share of the times of the last minutes lies, in microseconds; null without any.
function quantile(kind, share) {
  const [first, last] = [samples[0].times, samples.at(-1).times];
  if (!first || !last) {
    return null;
  }
  const counts = last[kind].map((all, index) => all - first[kind][index]);
  let rest = sum(counts, (one) => one) * share;
  if (rest === 0) {
    return null;
  }
  const index = counts.findIndex((one) => (rest -= one) <= 0);
  return last.bounds_us[index] ?? Infinity;
}

function latency(kind) {
  const text = (share) => milliseconds(quantile(kind, share));
  return [text(0.5), `95 %: ${text(0.95)}`];
}

function rows(context) {
  const { status, site } = context;
  const load = upstreams(context);
  const rate = rates().at(-1);
  const responses = of(status, site, 'responses');
  const recent = Object.fromEntries(['hit', 'stale', 'miss', 'pass'].map((word) => [word, rise(word)]));
  const [errors, requests] = [rise('server_errors'), rise('requests')];
  return [
    ['Requests per second', rate === undefined ? '…' : rate.toFixed(1), `${count(responses.requests)} since the start`],
    ['Hit ratio', percent(ratio(recent)), `since the start: ${percent(ratio(responses))}`],
    ['Errors (5xx)', requests > 0 ? `${count(errors)} (${percent(errors / requests)})` : count(errors), `${count(responses.server_errors)} since the start`],
    ['Half of all responses', ...latency('all')],
    ['Half of the answers of PHP', ...latency('upstream')],
    ['PHP slots in use', `${sum(load, (one) => one.in_flight)} of ${sum(load, (one) => one.slots)}`, `${sum(load, (one) => one.waiting)} waiting`],
    ['Refused or failed', count(rise('refused')), `${count(responses.refused)} since the start, ${several(sum(load.flatMap((one) => one.servers), (one) => one.failures), 'upstream failure')}`],
    ...machine(status),
  ];
}

// What only the server's token sees.
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

function chart(title, points, width) {
  const newest = points.length > 0 ? points.at(-1).toFixed(1) : 'not known yet';
  return [h('h2', {}, title), line(`${title}; newest: ${newest}`, points, ROOM, width)];
}

function draw(place, context) {
  const width = Math.max(place.clientWidth, 280);
  place.replaceChildren(
    h('p', { class: 'quiet' }, 'Figures of the last three minutes, renewed every two seconds.'),
    figures(rows(context)),
    ...chart('Requests per second, last three minutes', rates(), width),
    ...chart('PHP: requests in progress and waiting, last three minutes', samples.map((one) => one.busy + one.waiting), width),
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
  const drawn = await lastDay(context.site, Math.max(day.clientWidth, 280));
  day.replaceChildren(h('h2', {}, 'Last day'), ...drawn);
}

export const overview = {
  id: 'overview',
  title: 'Overview',
  async show(element, context) {
    parts = { verdict: h('div', {}), now: h('div', {}), day: h('div', {}) };
    element.replaceChildren(parts.verdict, parts.now, parts.day);
    record(context);
    judge(parts.verdict, context);
    draw(parts.now, context);
    await drawDay(context);
  },
  sample(context) {
    judge(parts.verdict, context);
    draw(parts.now, context);
    if (performance.now() - Number(parts.day.dataset.drawn) > DAY_MS) {
      drawDay(context).catch(() => { /* the next sample says that the server does not answer */ });
    }
  },
};
