// What the server does now, renewed by every sample.

import { figures, h } from './dom.js';
import { line } from './chart.js';
import { bytes, count, duration, percent, several } from './figures.js';

// Samples of the last minutes.
const ROOM = 90;
const samples = [];

function responsesOf(status, name) {
  const site = status.sites.find((one) => one.name === name);
  return site ? site.responses : status.responses;
}

function ratio(responses) {
  const fromMemory = responses.hit + responses.stale;
  const all = fromMemory + responses.miss + responses.pass;
  return all > 0 ? fromMemory / all : null;
}

function note({ status, site }) {
  const sample = { at: performance.now(), uptime: status.uptime_s, site, responses: responsesOf(status, site) };
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

function recentRatio() {
  const [first, last] = [samples[0], samples.at(-1)];
  const words = ['hit', 'stale', 'miss', 'pass'];
  const since = Object.fromEntries(words.map((word) => [word, last.responses[word] - first.responses[word]]));
  return ratio(since);
}

// Responses with a status of 5xx among those of the last minutes.
function recentErrors() {
  const [first, last] = [samples[0], samples.at(-1)];
  const of = (name) => Math.max((last.responses[name] ?? 0) - (first.responses[name] ?? 0), 0);
  const requests = of('requests');
  return { errors: of('server_errors'), share: requests > 0 ? of('server_errors') / requests : null };
}

function ofSites({ status, site }) {
  return status.sites.filter((one) => !site || one.name === site);
}

function sum(all, of) {
  return all.reduce((total, one) => total + of(one), 0);
}

function rows(context) {
  const { status, site } = context;
  const responses = responsesOf(status, site);
  const upstreams = ofSites(context).flatMap((one) => one.upstreams);
  const paused = upstreams.flatMap((one) => one.servers).filter((server) => server.state !== 'up').length;
  const slots = sum(upstreams, (one) => one.slots);
  const rate = rates().at(-1);
  const failures = sum(upstreams.flatMap((one) => one.servers), (server) => server.failures);
  const { errors, share } = recentErrors();
  const all = [
    ['Requests per second', rate === undefined ? '…' : rate.toFixed(1), `${count(responses.requests)} since the start`],
    ['Hit ratio', percent(ratio(responses)), `now: ${percent(recentRatio())}`],
    ['PHP slots in use', `${sum(upstreams, (one) => one.in_flight)} of ${slots}`, `${sum(upstreams, (one) => one.waiting)} waiting`],
    ['Errors (5xx), last three minutes', share === null ? count(errors) : `${count(errors)} (${percent(share)})`, `${count(responses.server_errors)} since the start, ${several(failures, 'upstream failure')}`],
    ['Refused or failed', count(responses.refused), paused > 0 ? `${several(paused, 'upstream server')} out of use` : 'all upstream servers in use'],
  ];
  return [...all, ...machine(status)];
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

function draw(place, context) {
  const all = rates();
  const width = Math.max(place.clientWidth, 280);
  const newest = all.length > 0 ? all.at(-1).toFixed(1) : 'not known yet';
  place.replaceChildren(
    figures(rows(context)),
    h('h2', {}, 'Requests per second, last three minutes'),
    line(`Requests per second over the last three minutes; newest: ${newest}`, all, ROOM, width),
    h('p', { class: 'quiet' }, 'A new figure every two seconds.'),
  );
}

let place = null;

export const live = {
  id: 'live',
  title: 'Live',
  async show(element, context) {
    place = element;
    note(context);
    draw(place, context);
  },
  sample(context) {
    note(context);
    draw(place, context);
  },
};
