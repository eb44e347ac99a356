// Requests to the dashboard's server. The key of the session stays in this origin's storage and is sent as a field; the
// cookie, which this code cannot read, is sent by the browser.

const NAME = 'galley-key';

function key() {
  return sessionStorage.getItem(NAME);
}

export function isSignedIn() {
  return key() !== null;
}

// Exchanges the login of the address for a session. It works once.
export async function login(token) {
  const response = await fetch('/login', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ token }),
  });
  const body = await answer(response);
  sessionStorage.setItem(NAME, body.key);
}

export async function logout() {
  await post('logout', {});
  signOut();
}

export async function get(name, query = {}) {
  const given = Object.entries(query).filter((pair) => pair[1]);
  const search = new URLSearchParams(given).toString();
  const response = await fetch(`/api/${name}${search && `?${search}`}`, { headers: fields() });
  return answer(response);
}

export async function post(name, body) {
  const response = await fetch(`/api/${name}`, {
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
  for (let asked = 0; asked < MOST_CALLS && entries.length < most; asked += 1) {
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
  while (isSignedIn()) {
    try {
      const response = await fetch('/api/live', { headers: fields() });
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
  sessionStorage.removeItem(NAME);
  document.dispatchEvent(new CustomEvent('signed-out'));
}

function fields() {
  return { 'X-Galley-Key': key() ?? '' };
}

const RETRY_MS = 3000;
const MOST_CALLS = 20;
