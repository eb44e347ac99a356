//! One-time logins, and the sessions that they open: in memory, limited in number and time.
//!
//! A session has two secrets: the cookie, which scripts cannot read, and the key, which the page stores for its own origin and
//! sends in a field. Browsers send cookies to every port of a host, so a program on another port may see the cookie, but cannot
//! use it without the key. A foreign page can neither read the key nor send the field, so no request that it causes is
//! accepted.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io;
use std::time::{Duration, Instant};

use subtle::ConstantTimeEq;

/// Logins and sessions of one dashboard.
#[derive(Debug, Default)]
pub struct Sessions {
    /// Unused logins, the oldest first.
    logins: VecDeque<PendingLogin>,
    /// Open sessions, the oldest first.
    open: VecDeque<OpenSession>,
}

#[derive(Debug)]
struct PendingLogin {
    token: String,
    issued: Instant,
}

#[derive(Debug)]
struct OpenSession {
    secrets: SessionSecrets,
    opened: Instant,
}

/// The secrets of a session, which the browser stores.
#[derive(Clone, Debug)]
pub struct SessionSecrets {
    /// The value of the cookie.
    pub cookie: String,
    /// The value of the request field.
    pub key: String,
}

impl Sessions {
    /// Creates a token that opens one session within `LOGIN_LIFETIME`.
    pub fn issue(&mut self, now: Instant) -> io::Result<String> {
        let token = secret()?;
        if self.logins.len() >= MAX_LOGINS {
            self.logins.pop_front();
        }
        self.logins.push_back(PendingLogin {
            token: token.clone(),
            issued: now,
        });
        Ok(token)
    }

    /// Opens a session for a token. `None`: the token is unknown, has been used, or has expired.
    pub fn redeem(&mut self, token: &str, now: Instant) -> io::Result<Option<SessionSecrets>> {
        self.forget_old(now);
        let mut logins = self.logins.iter();
        let Some(at) = logins.position(|login| same(&login.token, token)) else {
            return Ok(None);
        };
        self.logins.remove(at);
        self.open(now).map(Some)
    }

    /// Opens a session for a user who has signed in.
    pub fn open(&mut self, now: Instant) -> io::Result<SessionSecrets> {
        self.forget_old(now);
        let secrets = SessionSecrets {
            cookie: secret()?,
            key: secret()?,
        };
        if self.open.len() >= MAX_SESSIONS {
            self.open.pop_front();
        }
        self.open.push_back(OpenSession {
            secrets: secrets.clone(),
            opened: now,
        });
        Ok(secrets)
    }

    /// Whether both secrets belong to one open session.
    pub fn is_open(&self, given: &SessionSecrets, now: Instant) -> bool {
        self.open.iter().any(|session| {
            is_young(session.opened, now, SESSION_LIFETIME)
                && same(&session.secrets.cookie, &given.cookie)
                && same(&session.secrets.key, &given.key)
        })
    }

    /// Ends a session.
    pub fn end(&mut self, given: &SessionSecrets) {
        self.open
            .retain(|session| !same(&session.secrets.cookie, &given.cookie));
    }

    fn forget_old(&mut self, now: Instant) {
        self.logins
            .retain(|login| is_young(login.issued, now, LOGIN_LIFETIME));
        self.open
            .retain(|session| is_young(session.opened, now, SESSION_LIFETIME));
    }
}

fn is_young(since: Instant, now: Instant, lifetime: Duration) -> bool {
    now.saturating_duration_since(since) < lifetime
}

fn same(a: &str, b: &str) -> bool {
    a.as_bytes().ct_eq(b.as_bytes()).into()
}

/// Returns 256 random bits of the kernel in hexadecimal. Fails if the kernel returns fewer.
fn secret() -> io::Result<String> {
    let mut bytes = [0_u8; 32];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    if filled != bytes.len() {
        return Err(io::Error::other("the kernel returned too few random bytes"));
    }
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

/// Enough time to copy an address to another machine.
pub const LOGIN_LIFETIME: Duration = Duration::from_secs(5 * 60);

/// A working day.
pub const SESSION_LIFETIME: Duration = Duration::from_secs(8 * 60 * 60);

/// The maximum number of unused logins.
const MAX_LOGINS: usize = 8;

/// The maximum number of open sessions; one more ends the oldest.
const MAX_SESSIONS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_works_once_and_expires() {
        let mut sessions = Sessions::default();
        let start = Instant::now();
        let token = sessions.issue(start).unwrap();
        assert!(sessions.redeem("", start).unwrap().is_none());
        let last = if token.ends_with('0') { '1' } else { '0' };
        let other = format!("{}{last}", &token[..token.len() - 1]);
        assert!(sessions.redeem(&other, start).unwrap().is_none());
        assert!(sessions.redeem(&token, start).unwrap().is_some());
        assert!(sessions.redeem(&token, start).unwrap().is_none());
        let late = sessions.issue(start).unwrap();
        assert!(
            sessions
                .redeem(&late, start + LOGIN_LIFETIME)
                .unwrap()
                .is_none()
        );
        let just = sessions.issue(start).unwrap();
        let at_last = start + Duration::from_secs(299);
        assert!(sessions.redeem(&just, at_last).unwrap().is_some());
    }

    #[test]
    fn a_session_requires_both_secrets_and_ends() {
        let mut sessions = Sessions::default();
        let start = Instant::now();
        let mut open = || {
            let token = sessions.issue(start).unwrap();
            sessions.redeem(&token, start).unwrap().unwrap()
        };
        let (one, two) = (open(), open());
        let mixed = SessionSecrets {
            cookie: one.cookie.clone(),
            key: two.key.clone(),
        };
        let empty = SessionSecrets {
            cookie: String::new(),
            key: String::new(),
        };
        assert!(sessions.is_open(&one, start) && sessions.is_open(&two, start));
        assert!(!sessions.is_open(&mixed, start) && !sessions.is_open(&empty, start));
        assert!(!sessions.is_open(&one, start + SESSION_LIFETIME));
        sessions.end(&one);
        assert!(!sessions.is_open(&one, start) && sessions.is_open(&two, start));
    }

    #[test]
    fn logins_and_sessions_are_bounded() {
        let mut sessions = Sessions::default();
        let now = Instant::now();
        let tokens: Vec<String> = (0..MAX_LOGINS * 3)
            .map(|_| sessions.issue(now).unwrap())
            .collect();
        assert_eq!(sessions.logins.len(), MAX_LOGINS);
        assert!(sessions.redeem(&tokens[0], now).unwrap().is_none());
        let mut opened = Vec::new();
        for _ in 0..=MAX_SESSIONS {
            let token = sessions.issue(now).unwrap();
            opened.extend(sessions.redeem(&token, now).unwrap());
        }
        assert_eq!(sessions.open.len(), MAX_SESSIONS);
        assert!(!sessions.is_open(&opened[0], now) && sessions.is_open(&opened[1], now));
    }
}
