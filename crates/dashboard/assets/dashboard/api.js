// Requests to the dashboard's server. The key of the session is sent as a field; the cookie, which this code cannot read, is sent
// by the browser.

const NAME = 'galley-key';

// Whether a name and a password open the dashboard, on the address of a site. Other pages of the site have the same origin and so
// the same storage: there the key stays in this page alone.
export const hasPassword = document.documentElement.dataset.login === 'password';

let own = null;

function key() {
  return hasPassword ? own : sessionStorage.getItem(NAME);
}

function keep(given) {
  if (hasPassword) {
    own = given;
  } else if (given === null) {
    sessionStorage.removeItem(NAME);
  } else {
    sessionStorage.setItem(NAME, given);
  }
}

export function isSignedIn() {
  return key() !== null;
}

// Exchanges the login of the address, which works once, or a name and a password for a session.
export async function login(credentials) {
  const response = await fetch('login', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(credentials),
  });
  const body = await answer(response);
  keep(body.key);
}

export async function logout() {
  await post('logout', {});
  signOut();
}

export async function get(name, query = {}) {
  const given = Object.entries(query).filter((pair) => pair[1]);
  const search = new URLSearchParams(given).toString();
  const response = await fetch(`api/${name}${search && `?${search}`}`, { headers: fields() });
  return answer(response);
}

export async function post(name, body) {
  const response = await fetch(`api/${name}`, {
    method: 'POST',
    headers: { ...fields(), 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  });
  return answer(response);
}

// Stored entries, at most about `most`. One answer of the server may have few of them and go on, so this asks until there are enough.
export async function listing(query, most) {
  const entries = [];
  let after = null;
  for (let asked = 0; asked < MAX_CALLS && entries.length < most; asked += 1) {
    const answer = await get('cache', { ...query, limit: most, after });
    entries.push(...answer.entries);
    after = answer.next;
    if (!after) {
      break;
    }
  }
  return { entries, isWhole: !after };
}

// Calls `show` with each sample of the server's state until the session ends; connects again when the connection breaks.
// EventSource cannot send fields, so the events are read here.
export async function watch(show, fail) {
  if (hasPassword) {
    await poll(show, fail);
    return;
  }
  while (isSignedIn()) {
    try {
      const response = await fetch('api/live', { headers: fields() });
      if (!response.ok) {
        await answer(response);
      }
      await read(response.body, show);
      fail('The connection to galley dashboard has ended.');
    } catch (error) {
      fail(error.message);
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

// The same on the address of a site, where a stream would occupy a connection of visitors: asks while the page is seen.
async function poll(show, fail) {
  const session = key();
  while (key() === session) {
    if (!document.hidden) {
      try {
        show({ ok: true, status: await get('status') });
      } catch (error) {
        fail(error.message);
      }
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

async function read(body, show) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) {
      return;
    }
    const events = (text + value).split('\n\n');
    text = events.pop();
    for (const event of events) {
      show(JSON.parse(event.slice('data: '.length)));
    }
  }
}

async function answer(response) {
  let body = null;
  try {
    body = await response.json();
  } catch {
    throw new Error(`The server sent an answer that cannot be read (${response.status}).`);
  }
  if (response.status === 401) {
    signOut();
  }
  if (!response.ok) {
    throw new Error(body.error);
  }
  return body;
}

function signOut() {
  keep(null);
  document.dispatchEvent(new CustomEvent('signed-out'));
}

function fields() {
  return { 'X-Galley-Key': key() ?? '' };
}

const RETRY_MS = 3000;
const POLL_MS = 2000;
const MAX_CALLS = 20;
