// The latest purges, and those that still wait.

import { get } from './api.js';
import { facts, h, table } from './dom.js';
import { count, duration, several } from './figures.js';

const SOURCES = {
  admin: 'galley purge, dashboard or program', request: 'purge request', upstream: 'WordPress', unsafe: 'a request that changes something', repair: 'Galley: a file is gone',
  audit: 'Galley: an audit found it out of date', folder: 'purge folder', cluster: 'another node', forward: 'another Galley', upgrade: 'an upgrade that failed',
};

function forwarded({ name, purge_forward: targets = [] }) {
  return targets.map((one) => [
    `${name}: ${one.target}`, `${count(one.pending)} waiting, ${count(one.sent)} sent`, one.error ?? '',
  ]);
}

function pending({ disk, cluster, sites = [] }) {
  const rows = [];
  if (disk) {
    rows.push(['Written to the disk', disk.purges_kept ? 'yes' : disk.purges_lost_reason ?? 'no']);
  }
  if (cluster) {
    rows.push(['Waiting for the cluster', count(cluster.purges_unsent)], ['Acknowledged by the cluster', count(cluster.purges_acknowledged)]);
  }
  rows.push(...sites.flatMap(forwarded));
  return rows.length > 0 ? [h('h2', {}, 'Pending'), facts(rows)] : [];
}

// Purges of one edit, the newest first: those that WordPress published with one label, or without a label within a moment.
function edits(purges) {
  const groups = [];
  for (const purge of purges) {
    const isSame = (last) => last.source === purge.source && (last.label ?? null) === (purge.label ?? null) &&
      purge.ago_ms - last.ago_ms <= (purge.label ? EDIT_MS : MOMENT_MS);
    const group = groups.find((one) => isSame(one.at(-1)));
    group ? group.push(purge) : groups.push([purge]);
  }
  return groups;
}

// Stored pages that purges took. `complete` is false where there may have been more.
function taken(edit) {
  if (edit.some((purge) => (purge.pages ?? null) === null)) {
    return 'pages not counted';
  }
  const pages = several(edit.reduce((all, purge) => all + purge.pages, 0), 'page');
  return edit.every((purge) => purge.complete) ? pages : `at least ${pages}`;
}

// The time from the first purge to the last: an edit purges when its response begins, and again when PHP has ended.
function took(edit) {
  const ms = edit.at(-1).ago_ms - edit[0].ago_ms;
  return ms < 50 ? 'at once' : `${(ms / 1000).toFixed(1)} s`;
}

const POST_TAG = /^tag p(\d+)$/;

// What an edit was, by its label or as far as its tags tell; the purges themselves on demand.
function what(edit) {
  const { label, scope } = edit[0];
  if (edit.length === 1 && !label) {
    return `${scope}: ${taken(edit)}`;
  }
  const post = edit.map((purge) => POST_TAG.exec(purge.scope)).find(Boolean);
  const name = label ?? (post ? `Edit of post ${post[1]}` : edit[0].source === 'unsafe' ? 'A request' : 'An edit');
  // Purged at the beginning and at the end, a scope is listed once.
  const scopes = [...new Set(edit.map((purge) => purge.scope))];
  const list = scopes.map((one) => {
    const pages = taken(edit.filter((purge) => purge.scope === one));
    return h('li', {}, one, pages === '0 pages' ? '' : `: ${pages}`);
  });
  return h('details', {}, h('summary', {}, `${name}: ${taken(edit)}, ${took(edit)}`), h('p', {}, several(scopes.length, 'purge')), h('ul', {}, list));
}

function how(edit) {
  return edit.every((purge) => purge.strength === 'soft') ? 'soft: the old page is sent until the new one is there' : 'hard';
}

function listed(site) {
  const columns = [['When', 'number'], ['What', 'wide'], ['How'], ['By']];
  const rows = edits(site.purges).map((edit) => [
    `${duration(edit[0].ago_s)} ago`, what(edit), how(edit), SOURCES[edit[0].source] ?? edit[0].source,
  ]);
  return table(`The latest of ${count(site.published)} purges on ${site.name}`, columns, rows, 'Nothing was purged since the start.');
}

// What audits found this week. A server of an earlier version has none.
function audited({ sites = [] }) {
  const rows = sites.filter((one) => one.audit).flatMap(({ name, audit }) => {
    const { same, varies, changed } = audit.week;
    const checked = same + varies + changed;
    const found = audit.findings.filter((one) => one.result === 'changed');
    return checked === 0 ? [] : [
      [name, `${count(checked)} pages checked this week, ${count(changed)} were out of date, ${count(varies)} vary`],
      ...found.map((one) => [`${duration(one.ago_s)} ago`, `${one.url} was out of date: ${one.before}`]),
    ];
  });
  return rows.length > 0 ? [h('h2', {}, 'Audit'), facts(rows)] : [];
}

export const purges = {
  id: 'purges',
  title: 'Purges',
  async show(place, { site, status }) {
    const { sites } = await get('purges', { site });
    place.replaceChildren(...pending(status), ...audited(status), ...sites.flatMap((one) => [h('h2', {}, one.name), listed(one)]));
  },
};

const MOMENT_MS = 100;
// The editor sends an edit as two requests, a few seconds apart.
const EDIT_MS = 3000;
