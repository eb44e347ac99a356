// Why requests reach PHP: the causes, what each costs, the pages that this happens to, and what to do.

import { get, listing } from './api.js';
import { h, prose, table } from './dom.js';
import { count, duration, percent, several } from './figures.js';

const KINDS = { pass: 'bypasses the cache', 'not-stored': 'is not stored' };
const NOTHING = 'nothing: this is as it should be';

function whyLink(url) {
  return h('a', { href: `#why?${new URLSearchParams({ url })}`, 'aria-label': `Why: ${url}` }, url);
}

function remedy(text) {
  return h('p', {}, h('strong', {}, 'What to do: '), prose(text ?? NOTHING), '.');
}

// A sentence of the server as a heading.
function sentence(text) {
  return prose(text.charAt(0).toUpperCase() + text.slice(1));
}

// Pages by their exact cause, the most pages first.
function causes(pages) {
  return [...Map.groupBy(pages, (page) => page.why)].toSorted((a, b) => b[1].length - a[1].length);
}

function listed(caption, pages, isOpen) {
  const rows = pages.map((page) => [whyLink(page.url), `${duration(page.ago_s)} ago`]);
  return h('details', { open: isOpen },
    h('summary', {}, several(pages.length, 'page')),
    table(caption, [['Page', 'wide'], ['Last request', 'number']], rows, ''));
}

function card(why, ...parts) {
  return h('section', { class: 'cause' }, h('h3', {}, sentence(why)), parts);
}

// A reason with its share of all requests and of PHP's time. Its pages know the cause better than the reason: which cookie, which status.
function reason(site, one, { markers, pages }, isOpen) {
  const of = (part, whole) => percent(whole > 0 ? part / whole : 0);
  const cost = one.upstream_us === undefined ? '' : `, ${of(one.upstream_us, site.upstream_us)} of the time of PHP`;
  const text = `${several(one.requests, 'request')} (${of(one.requests, site.requests)} of all)${cost}: ${KINDS[one.kind]} (${one.word})`;
  const figures = h('p', { class: 'quiet' }, text);
  const own = one.word === 'remembered' ? markers : pages.filter((page) => one.kind === 'not-stored' && page.word === one.word);
  const exact = causes(own);
  const list = (all, index) => listed(`Pages of ${site.name}: ${one.word}, cause ${index + 1}`, all, isOpen);
  if (exact.length === 1) {
    const [[why, all]] = exact;
    return card(why, figures, remedy(all[0].do), list(all, 0));
  }
  const parts = exact.map(([why, all], index) => [h('h4', {}, sentence(why)), remedy(all[0].do), list(all, index)]);
  return card(one.why, figures, exact.length > 0 ? parts : remedy(one.do));
}

// Pages of causes that no counted reason has: their responses came before the counters began.
function others(site, pages) {
  const words = site.reasons.filter((one) => one.kind === 'not-stored').map((one) => one.word);
  return causes(pages.filter((page) => !words.includes(page.word))).map(([why, all], index) =>
    card(why, remedy(all[0].do), listed(`Other pages of ${site.name}, cause ${index + 1}`, all, false)));
}

function reasons(site, entries) {
  const markers = entries.map((entry) => ({ url: entry.url, ago_s: entry.age_s, ...entry.not_stored }));
  const pages = [...markers, ...site.pages];
  if (site.reasons.length === 0 && pages.length === 0) {
    return [h('p', { class: 'quiet' }, 'No request bypassed the cache, and every page that PHP generated was stored.')];
  }
  return [
    h('p', { class: 'quiet' }, 'Since the start; what costs PHP most time comes first.'),
    ...site.reasons.map((one, index) => reason(site, one, { markers, pages }, index < OPEN_CAUSES)),
    ...others(site, pages),
  ];
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
      parts.push(h('h2', {}, site.name), ...reasons(site, entries), ...facets(site).filter(Boolean));
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
