// The frame of the dashboard: login, the site that is looked at, the view that the address names, live samples.

import { get, hasPassword, isSignedIn, login, logout, watch } from './api.js';
import { showError, h, quiet } from './dom.js';
import { loginForm } from './login.js';
import { certificates, cluster, configuration, php } from './machine.js';
import { notCached } from './not-cached.js';
import { overview, record } from './overview.js';
import { pages, why } from './pages.js';
import { purges } from './purges.js';
import { badge, titleMark, UNKNOWN } from './verdict.js';

// A view: { id, title, show(place, context), sample(context)?, isServer? }. `context` has `status`, `site` and `query`.
const VIEWS = [overview, pages, why, notCached, purges, php, certificates, configuration, cluster];

const byId = (id) => document.getElementById(id);
const context = { status: null, site: '', query: new URLSearchParams() };
let current = null;
let isCut = false;

// Whether this token sees more than its own site.
function isServer() {
  return Boolean(context.status?.memory);
}

function offered() {
  return VIEWS.filter((view) => isServer() || !view.isServer);
}

function frame() {
  byId('version').textContent = context.status.version;
  byId('tools').hidden = false;
  byId('nav').hidden = false;
  const names = context.status.sites.map((site) => site.name);
  const all = names.length > 1 ? [h('option', { value: '' }, 'All sites')] : [];
  byId('site').replaceChildren(...all, ...names.map((name) => h('option', { value: name }, name)));
  context.site = byId('site').value;
  byId('views').replaceChildren(...offered().map((view) => h('li', {}, h('a', { href: `#${view.id}` }, view.title))));
}

async function open() {
  const [id, query] = location.hash.slice(1).split('?');
  current = offered().find((view) => view.id === id) ?? overview;
  context.query = new URLSearchParams(query);
  quiet();
  byId('title').textContent = current.title;
  name();
  for (const link of byId('views').querySelectorAll('a')) {
    const isCurrent = link.hash === `#${current.id}`;
    isCurrent ? link.setAttribute('aria-current', 'page') : link.removeAttribute('aria-current');
  }
  await show();
}

// The state in the head of the page and in its title, so that a background tab shows it too.
function name() {
  const { health } = context.status;
  document.title = `${titleMark(health)}${current.title} – Galley`;
  byId('state').replaceChildren(...badge(health));
  byId('state').hidden = false;
}

async function show() {
  const view = current;
  const place = h('div', { id: 'view', 'data-view': view.id });
  byId('view').replaceWith(place);
  try {
    await view.show(place, context);
    place.dataset.ready = 'yes';
  } catch (error) {
    showError(error.message);
  }
}

function keep(status) {
  context.status = { health: UNKNOWN, ...status };
}

// No samples come; the next one removes the error.
function cut(why) {
  isCut = true;
  showError(why);
}

function sampled(event) {
  if (!current) {
    return;
  }
  if (!event.ok) {
    cut(event.error);
    return;
  }
  if (isCut) {
    isCut = false;
    quiet();
  }
  keep(event.status);
  record(context);
  name();
  document.documentElement.dataset.samples = Number(document.documentElement.dataset.samples ?? 0) + 1;
  current?.sample?.(context);
}

function signedOut() {
  byId('tools').hidden = true;
  byId('state').hidden = true;
  byId('nav').hidden = true;
  current = null;
  if (hasPassword) {
    byId('title').textContent = 'Sign in';
    document.title = 'Sign in – Galley';
    loginForm(byId('view'), enter);
    return;
  }
  byId('title').textContent = 'Signed out';
  const text = h('p', {}, 'Run ', h('code', {}, 'galley dashboard'), ' on the server, or press Enter where it runs, and open the address that it prints. Each address works once.');
  byId('view').replaceChildren(text);
}

// Shows the views to somebody who is signed in.
async function enter() {
  keep(await get('status'));
  frame();
  watch(sampled, cut);
  await open();
}

async function changedAddress() {
  if (location.hash.startsWith(LOGIN)) {
    location.reload();
    return;
  }
  if (isSignedIn()) {
    await open();
    byId('main').focus();
  }
}

async function start() {
  byId('skip').addEventListener('click', (event) => {
    event.preventDefault();
    byId('main').focus();
  });
  byId('logout').addEventListener('click', () => logout().catch((error) => showError(error.message)));
  byId('site').addEventListener('change', () => {
    context.site = byId('site').value;
    quiet();
    show();
  });
  document.addEventListener('signed-out', signedOut);
  addEventListener('hashchange', changedAddress);
  if (await signIn()) {
    await enter();
  }
}

async function signIn() {
  if (location.hash.startsWith(LOGIN) && !hasPassword) {
    const token = location.hash.slice(LOGIN.length);
    // Neither the history nor a bookmark keeps it.
    history.replaceState(null, '', location.pathname);
    await login({ token });
  }
  if (!isSignedIn()) {
    signedOut();
  }
  return isSignedIn();
}

const LOGIN = '#login=';

start().catch((error) => {
  if (!isSignedIn()) {
    signedOut();
  }
  showError(error.message);
});
