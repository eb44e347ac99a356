// Why requests reach PHP, the pages that this happens to, and what to do.

import { get, listing } from './api.js';
import { h, table } from './dom.js';
import { count, duration, percent, several } from './figures.js';

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

// The pages by cause, the most pages first. Markers have the exact reason; the others happened once and may be stored the next time.
function affected(name, markers, lately) {
  const pages = [
    ...markers.map((entry) => ({ url: entry.url, ago_s: entry.age_s, ...entry.not_stored })),
    ...lately,
  ];
  if (pages.length === 0) {
    return h('p', { class: 'quiet' }, 'No page was refused lately.');
  }
  const causes = Map.groupBy(pages, (page) => page.why);
  const sorted = [...causes].toSorted((a, b) => b[1].length - a[1].length);
  return h('div', {}, sorted.map(([why, all], index) => {
    const rows = all.map((page) => [whyLink(page.url), `${duration(page.ago_s)} ago`]);
    const columns = [['Page', 'wide'], ['When', 'number']];
    return h('details', { open: index < OPEN_CAUSES },
      h('summary', {}, `${several(all.length, 'page')} of ${name}: ${why}`),
      h('p', {}, h('strong', {}, 'What to do: '), all[0].do ?? 'Nothing: this is as it should be.'),
      table(`Pages of ${name} that were not stored lately, cause ${index + 1}`, columns, rows, ''));
  }));
}

// What was learned about the query parameters of the site's pages, and the line that its owner may add.
function facets(site) {
  const { paths, proposal } = site.facets ?? { paths: [], proposal: null };
  if (paths.length === 0) {
    return [];
  }
  const rows = paths.flatMap((path) => path.parameters.map((one) =>
    [path.path, count(path.combinations), one.name, count(one.values), count(one.same), count(one.different)]));
  const columns = [['Path', 'wide'], ['Combinations', 'number'], ['Parameter'], ['Values', 'number'], ['Same page', 'number'], ['Another page', 'number']];
  return [
    h('h3', {}, 'Query parameters'),
    proposal
      ? h('p', { class: 'note' }, h('strong', {}, 'What to do: '), 'if these parameters change no page, add ', h('code', {}, proposal.line),
        ` to the site. None of ${count(proposal.compared)} compared pages changed with them.`)
      : null,
    table(`Query parameters of generated pages of ${site.name}`, columns, rows, ''),
  ];
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
      parts.push(h('h2', {}, site.name), reasons(site), h('h3', {}, 'Affected pages'), affected(site.name, entries, site.pages), ...facets(site));
    }
    if (sites.length > busiest.length) {
      parts.push(h('p', { class: 'note' }, `The ${busiest.length} busiest of ${sites.length} sites. Select one to see others.`));
    }
    place.replaceChildren(...parts);
  },
};

const MAX_SITES = 8;
const MAX_PAGES = 100;
const OPEN_CAUSES = 3;
