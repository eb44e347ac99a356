// The latest purges, and those that still wait.

import { get } from './api.js';
import { facts, h, table } from './dom.js';
import { count, duration } from './figures.js';

const SOURCES = {
  admin: 'galley purge, dashboard or program', request: 'purge request', upstream: 'WordPress', repair: 'Galley: a file is gone',
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

// Stored pages that a purge took. `complete` is false where there may have been more.
function taken({ pages = null, complete }) {
  if (pages === null) {
    return 'not counted';
  }
  return complete ? count(pages) : `at least ${count(pages)}`;
}

function listed(site) {
  const columns = [['When', 'number'], ['What', 'wide'], ['Pages', 'number'], ['How'], ['By']];
  const rows = site.purges.map((purge) => [
    `${duration(purge.ago_s)} ago`, purge.scope, taken(purge), purge.strength === 'soft' ? 'soft: the old page is sent until the new one is there' : 'hard',
    SOURCES[purge.source] ?? purge.source,
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
