// PHP, certificates, configuration and cluster: what the status of the server says of them.

import { get, post } from './api.js';
import { showError, facts, figures, h, table } from './dom.js';
import { bytes, count, duration, moment, percent } from './figures.js';

function chosen({ status, site }) {
  return status.sites.filter((one) => !site || one.name === site);
}

function pool(numbers) {
  return figures([
    ['PHP workers', count(numbers.workers), `${count(numbers.slots)} slots`],
    ['Memory of all workers', bytes(numbers.bytes), `share of the machine: ${bytes(numbers.share_bytes)}`],
    ['Largest worker', bytes(numbers.largest_bytes), `usual: ${bytes(numbers.worker_bytes)}`],
    ['Slow requests ended', count(numbers.overdue)],
    ['Workers replaced', count(numbers.replaced)],
    ['Restarts', count(numbers.restarts)],
  ]);
}

function upstreams(site) {
  const states = { up: 'in use', paused: 'paused: it does not respond', down: 'down: it fails its health checks' };
  const columns = [['Server', 'wide'], ['State'], ['In progress', 'number'], ['Failures', 'number'], ['Slots in use', 'number'], ['Waiting', 'number'], ['Turned away', 'number'], ['Pauses', 'number']];
  const rows = site.upstreams.flatMap((one) => one.servers.map((server) => [
    server.address, server.backup && server.state === 'up' ? 'backup' : states[server.state], count(server.in_flight), count(server.failures), `${one.in_flight} of ${one.slots}`, count(one.waiting),
    count(Object.values(one.classes).reduce((all, part) => all + part.rejected, 0)), count(server.pauses),
  ]));
  return table(`Upstream servers of ${site.name}`, columns, rows, 'This site has files only.');
}

function slowRequests(site) {
  const columns = [['Request', 'wide'], ['Slowest', 'number'], ['Times', 'number'], ['Last', 'number']];
  const rows = (site.slow_requests ?? []).map((one) => [
    `${one.method} ${one.target}`, one.ms < 10000 ? `${count(one.ms)} ms` : duration(one.ms / 1000), count(one.count), `${duration(one.last_ago_s)} ago`,
  ]);
  return table(`Slowest requests of ${site.name} in the last hour`, columns, rows, 'No request took the upstream longer than half a second in the last hour.');
}

// What the object cache of WordPress does, what costs most, and what works against it.
function objects(site) {
  const of = site.object_cache;
  if (!of?.requests) {
    return [h('p', { class: 'quiet' }, 'WordPress does not use the object cache of Galley.')];
  }
  const columns = [['Group', 'wide'], ['Missing', 'number'], ['Changed', 'number']];
  const rows = of.groups.map((one) => [one.group, count(one.misses), count(one.changes)]);
  return [
    figures([
      ['Values found', percent(of.hit_ratio), `${count(of.misses)} missing`],
      ['Round trips of a request', (of.round_trips / of.requests).toFixed(1), `${count(of.requests)} requests`],
      ['Queries of a request', (of.queries / of.requests).toFixed(1), `${(of.saved_queries / of.requests).toFixed(1)} saved`],
      ['Memory', bytes(of.bytes), `${count(of.entries)} values`],
      ['Emptied', count(of.flushes + of.adopted + of.abandoned), of.flushed_by ? `last by ${of.flushed_by}` : ''],
    ]),
    ...lines('Problems', of.problems.map((one) => `${one.problem}${typeof one.since_s !== 'number' ? '' : ` (for ${duration(one.since_s)})`}: ${one.remedy}`)),
    table(`Groups of ${site.name} that cost most`, columns, rows, 'Nothing was missing or changed.'),
  ];
}

export const php = {
  id: 'php',
  title: 'PHP',
  async show(place, context) {
    const parts = chosen(context).flatMap((site) => [
      h('h2', {}, site.name),
      site.php ? pool(site.php) : h('p', { class: 'quiet' }, 'Galley does not run the PHP of this site: memory and restarts are not known here.'),
      upstreams(site),
      h('h3', {}, 'Object cache'),
      ...objects(site),
      h('h3', {}, 'Slow requests'),
      slowRequests(site),
      site.cron ? facts([
        ['Scheduler runs', count(site.cron.runs)], ['Failed runs', count(site.cron.failures)], ['Last error', site.cron.last?.error],
        ['Next run', site.cron.next_in_s === null ? null : `in ${duration(site.cron.next_in_s)}`],
      ]) : null,
    ]);
    place.replaceChildren(...parts.filter(Boolean));
  },
};

export const certificates = {
  id: 'certificates',
  title: 'Certificates',
  async show(place, context) {
    const columns = [['Names', 'wide'], ['Valid until'], ['Left', 'number'], ['State', 'wide']];
    const parts = chosen(context).flatMap((site) => {
      const rows = (site.certificates ?? []).map((one) => [
        one.names.join(', '), one.not_after === null ? 'there is none yet' : moment(one.not_after),
        one.valid_for_s === null ? '' : duration(one.valid_for_s), one.error ?? (one.ordering ? 'is being ordered' : 'fine'),
      ]);
      const files = (site.certificate_files ?? []).map((one) => [one.names.join(', '), moment(one.not_after), duration(one.valid_for_s), one.valid_for_s > 0 ? 'from a file' : 'expired']);
      return [
        h('h2', {}, site.name),
        table(`Certificates of ${site.name} that Galley obtains`, columns, rows, 'Galley obtains no certificate for this site.'),
        files.length > 0 ? table(`Certificates of ${site.name} from files`, columns, files, '') : null,
      ].filter(Boolean);
    });
    place.replaceChildren(...parts);
  },
};

function lines(title, all) {
  return all?.length > 0 ? [h('h3', {}, title), h('ul', {}, all.map((line) => h('li', {}, line)))] : [];
}

// Options with what is in effect and what the file has.
function changedOptions(all) {
  if (!all || all.length === 0) {
    return [];
  }
  const side = (one) => (one ? [h('code', {}, one.value), ' ', h('span', { class: 'quiet' }, one.set_at ?? 'default')] : h('span', { class: 'quiet' }, 'none'));
  const columns = [['Option', 'wide'], ['In effect', 'wide'], ['In the file', 'wide']];
  const rows = all.map((one) => [
    `${one.section} ${one.name}${one.site ? ` of ${one.site}` : ''}`, side(one.before),
    one.hidden ? [side(one.after), ' (differs in what is not shown)'] : side(one.after),
  ]);
  return [h('h3', {}, 'Old and new values'), table('Options with other values in the file', columns, rows, '')];
}

function changes(report) {
  const isEmpty = report.changes.length === 0 && report.restart.length === 0;
  return [
    isEmpty ? h('p', {}, 'A reload would change nothing: the file is what is in effect.') : null,
    ...lines('A reload would change', report.changes),
    ...lines('Only a restart changes', report.restart),
    ...changedOptions(report.options),
    ...lines('To be looked at', report.warnings),
    ...lines('Files', report.files),
  ].filter(Boolean);
}

function inEffect(status) {
  const columns = [['Site'], ['Hosts', 'wide'], ['Upstream'], ['Servers', 'wide']];
  const rows = status.sites.map((site) => [
    site.name, site.hosts.join(', '), site.upstream, site.upstreams.flatMap((one) => one.servers.map((server) => server.address)).join(', '),
  ]);
  const last = status.last_reload;
  return [
    facts([
      ['Version', status.version], ['Listeners', status.listeners.join(', ')], ['Cache in memory', bytes(status.memory.limit)],
      ['Cache on disk', status.disk ? bytes(status.disk.limit) : 'off'], ['Sandbox', status.sandbox], ['Privileges', status.privileged],
      ['Last reload', last ? `${moment(last.time)}: ${last.ok ? 'in effect' : last.error}` : 'none since the start'],
    ]),
    h('h2', {}, 'Sites'),
    table('Sites in effect', columns, rows, 'There are none.'),
  ];
}

// Options with their values; where a file sets them, else that they are defaults.
function options(sections, whose) {
  const columns = [['Option'], ['Value', 'wide'], ['Set in', 'wide']];
  return sections.map((section) => {
    const rows = section.options.map((one) => [one.name, h('code', {}, one.value), one.set_at ?? h('span', { class: 'quiet' }, 'default')]);
    return h('details', { open: section.options.some((one) => one.set_at) },
      h('summary', {}, `${section.header}${whose}`),
      table(`Options of ${section.header}${whose}`, columns, rows, 'None.'));
  });
}

export const configuration = {
  id: 'configuration',
  title: 'Configuration',
  isServer: true,
  async show(place, { status, site }) {
    const shared = await get('config');
    const own = site ? await get('config', { site }) : { sections: [] };
    const result = h('div', { 'aria-live': 'polite', id: 'changes' });
    const compare = async () => {
      try {
        result.replaceChildren(...changes(await post('compare', {})));
      } catch (error) {
        showError(error.message);
      }
    };
    place.replaceChildren(...[
      ...inEffect(status),
      h('h2', {}, 'Options in effect'),
      site ? null : h('p', { class: 'quiet' }, 'Choose a site at the top to see its options, too.'),
      ...options(own.sections, ` of ${site}`),
      ...options(shared.sections, ''),
      h('h2', {}, 'What a reload would change'),
      h('p', {}, 'Compares the file with what is in effect and changes nothing. ', h('code', {}, 'galley reload'), ' puts the file into effect.'),
      h('button', { type: 'button', id: 'compare', onclick: compare }, 'Compare'),
      result,
    ].filter(Boolean));
  },
};

export const cluster = {
  id: 'cluster',
  title: 'Cluster',
  isServer: true,
  async show(place, { status }) {
    const one = status.cluster;
    if (!one) {
      place.replaceChildren(h('p', {}, 'This server is not part of a cluster.'));
      return;
    }
    const rows = one.members.map((member) => [member.node, member.present ? 'present' : 'gone']);
    place.replaceChildren(
      figures([
        ['Connection', one.connected ? 'connected' : 'not connected', one.error],
        ['Stored pages', one.stored_pages_used ? 'in use' : 'not used'],
        ['Purges acknowledged', count(one.purges_acknowledged), `${count(one.purges_local)} on this node only`],
        ['Purges waiting', count(one.purges_unsent)],
        ['Purges of other nodes', count(one.purges_of_others)],
        ['Gaps', count(one.gaps)],
      ]),
      facts([['Engine', one.engine === null ? null : typeof one.engine === 'string' ? one.engine : JSON.stringify(one.engine)]]),
      h('h2', {}, 'Other nodes'),
      table('Other nodes of the cluster', [['Node', 'wide'], ['State']], rows, 'No other node is known.'),
    );
  },
};
