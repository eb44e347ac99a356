// Why requests reach PHP, the pages that this happens to, and what to do.

import { get, listing } from './api.js';
import { h, table } from './dom.js';
import { count, duration, percent } from './figures.js';

const KINDS = { pass: 'bypasses the cache', 'not-stored': 'is not stored' };

function reasons(site) {
  const columns = [['Requests', 'number'], ['Share', 'number'], ['What'], ['Because', 'wide'], ['What to do', 'wide']];
  const rows = site.reasons.map((reason) => [
    count(reason.requests), percent(reason.requests / Math.max(site.requests, 1)), `${KINDS[reason.kind]} (${reason.word})`, reason.why,
    reason.do ?? 'Nothing: this is as it should be.',
  ]);
  return table(`Reasons on ${site.name} since the start, the most frequent first`, columns, rows, 'No request bypassed the cache, and every page that PHP generated was stored.');
}

function whyLink(url) {
  return h('a', { href: `#why?${new URLSearchParams({ url })}`, 'aria-label': `Why: ${url}` }, url);
}

// Markers have the exact reason; the others happened once and may be stored the next time.
function affected(name, markers, lately) {
  const columns = [['Page', 'wide'], ['When', 'number'], ['Because', 'wide'], ['What to do', 'wide']];
  const advice = (one) => [one?.why, one?.do ?? 'Nothing: this is as it should be.'];
  const rows = [
    ...markers.map((entry) => [whyLink(entry.url), `${duration(entry.age_s)} ago`, ...advice(entry.not_stored)]),
    ...lately.map((page) => [whyLink(page.url), `${duration(page.ago_s)} ago`, ...advice(page)]),
  ];
  return table(`Pages of ${name} that were not stored lately`, columns, rows, 'No page was refused lately.');
}

export const notCached = {
  id: 'not-cached',
  title: 'Not cached',
  async show(place, context) {
    const { sites } = await get('not-cached', { site: context.site });
    const parts = [];
    const busiest = sites.toSorted((a, b) => b.requests - a.requests).slice(0, MAX_SITES);
    for (const site of busiest) {
      const { entries } = await listing({ site: site.name, kind: 'hit-for-pass' }, MAX_PAGES);
      parts.push(h('h2', {}, site.name), reasons(site), h('h3', {}, 'Affected pages'), affected(site.name, entries, site.pages));
    }
    if (sites.length > busiest.length) {
      parts.push(h('p', { class: 'note' }, `The ${busiest.length} busiest of ${sites.length} sites. Select one to see others.`));
    }
    place.replaceChildren(...parts);
  },
};

const MAX_SITES = 8;
const MAX_PAGES = 100;
