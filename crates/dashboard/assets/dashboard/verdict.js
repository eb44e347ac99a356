// Whether visitors are served, what is wrong, since when, and what to do. The server decides; see `health` in its status.

import { h, prose } from './dom.js';
import { duration } from './figures.js';

const MARKS = { ok: '✓', degraded: '!', failing: '✗' };
const NAMES = { ok: 'OK', degraded: 'Degraded', failing: 'Failing' };

// For a server of a version without a verdict.
export const UNKNOWN = { state: 'unknown', summary: 'This version of the server does not judge itself', problems: [] };

function mark(state) {
  return h('span', { class: `mark is-${state}`, 'aria-hidden': 'true' }, MARKS[state] ?? '?');
}

// The state in one word, for the head of every view and for the title of the page.
export function badge({ state }) {
  return [mark(state), ' ', NAMES[state] ?? state];
}

export function titleMark({ state }) {
  return state === 'ok' ? '' : `${MARKS[state] ?? '?'} `;
}

function problem(one) {
  const since = one.since_s === null ? null : h('span', { class: 'quiet' }, ` for ${duration(one.since_s)}`);
  return h('li', {},
    h('p', {}, mark(one.level), ' ', one.site ? h('strong', {}, `${one.site}: `) : null, prose(one.problem), since),
    h('p', { class: 'remedy' }, h('strong', {}, 'What to do: '), prose(one.remedy), '.'));
}

const SENTENCES = { ok: 'Visitors are served', degraded: 'Visitors are served, but not everything works', failing: 'Visitors get errors' };

// The verdict on one site and the server, without the problems of other sites.
function ofSite(health, site) {
  const problems = health.problems.filter((one) => !one.site || one.site === site);
  const state = ['failing', 'degraded'].find((level) => problems.some((one) => one.level === level)) ?? 'ok';
  return { state, summary: SENTENCES[state], problems };
}

// The sentence, then each problem of `site`, or all.
export function verdict(health, site) {
  const isWhole = !site || health.state === 'unknown' || health.problems.every((one) => !one.site || one.site === site);
  const { state, summary, problems } = isWhole ? health : ofSite(health, site);
  return h('section', { class: `verdict is-${state}`, 'aria-labelledby': 'verdict' },
    h('h2', { id: 'verdict' }, mark(state), ' ', `${summary}.`),
    problems.length > 0 ? h('ul', {}, problems.map(problem)) : null);
}
