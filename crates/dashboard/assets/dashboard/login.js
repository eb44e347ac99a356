// Signing in with a name and a password, where the dashboard is on the address of a site.

import { login } from './api.js';
import { showError, field, h, quiet } from './dom.js';

// Shows the form; calls `signedIn` when the password was right.
export function loginForm(place, signedIn) {
  const name = field('name', 'Name', { autocomplete: 'username', required: true });
  const password = field('password', 'Password', { type: 'password', autocomplete: 'current-password', required: true });
  const submit = async (event) => {
    event.preventDefault();
    const given = new FormData(event.target);
    try {
      await login({ name: given.get('name'), password: given.get('password') });
      quiet();
      await signedIn();
    } catch (error) {
      showError(error.message);
      document.getElementById('password').value = '';
      document.getElementById('password').focus();
    }
  };
  const form = h('form', { onsubmit: submit }, name, password, h('button', { class: 'main', type: 'submit' }, 'Sign in'));
  place.replaceChildren(form);
  document.getElementById('name').focus();
}
