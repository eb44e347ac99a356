//! Changes as they are applied to a response.

use http::{HeaderMap, HeaderName, header};

use super::changes::{Changes, HeaderField};
use crate::request_info::{RequestInfo, Scheme};
use crate::site::{Policy, Rule};

/// The changes of a site, and of each of its rules.
#[derive(Clone, Debug, Default)]
pub struct HeadChanges {
    of_site: ByStatus,
    of_rules: Vec<ByStatus>,
}

/// The changes for one rule, for successful responses and for errors.
#[derive(Clone, Debug, Default)]
struct ByStatus {
    success: Compiled,
    error: Compiled,
}

/// Fields that are set and added below status 400 only: browsers must not store an error for as long as the requested file.
const OF_SUCCESS: [HeaderName; 2] = [header::CACHE_CONTROL, header::EXPIRES];

impl HeadChanges {
    /// Compiles the changes of a site and its rules.
    pub fn new(policy: &Policy) -> Self {
        let of_rules = policy
            .rules
            .iter()
            .map(|rule| ByStatus::new(policy, Some(rule)));
        Self {
            of_site: ByStatus::new(policy, None),
            of_rules: of_rules.collect(),
        }
    }

    /// The changes for a response with this status, if this rule applies to the request.
    pub fn of(&self, rule: Option<usize>, status: u16) -> &Compiled {
        let changes = rule.and_then(|index| self.of_rules.get(index));
        let changes = changes.unwrap_or(&self.of_site);
        match status {
            ..400 => &changes.success,
            _ => &changes.error,
        }
    }
}

impl ByStatus {
    fn new(policy: &Policy, rule: Option<&Rule>) -> Self {
        let all = |_: &HeaderName| true;
        let of_errors = |name: &HeaderName| !OF_SUCCESS.contains(name);
        Self {
            success: Compiled::new(policy, rule, all),
            error: Compiled::new(policy, rule, of_errors),
        }
    }
}

/// All changes to one kind of response.
#[derive(Clone, Debug, Default)]
pub struct Compiled {
    removed: Vec<HeaderName>,
    /// The union of [`mask_of`] for all names in `removed`.
    mask: u64,
    plain: WrittenFields,
    secure: WrittenFields,
    /// `secure` with each value of `Alt-Svc`, and the port in requests that get it.
    advertising: Vec<(Option<u16>, WrittenFields)>,
}

/// Who gets a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// A client without TLS, or a proxy whose client has none.
    Plain,
    /// A client over TLS.
    Tls {
        /// The port that its request names, or that of the scheme.
        port: u16,
    },
    /// A proxy whose client has TLS.
    TlsProxy,
}

impl Recipient {
    /// The recipient of the response to a request. `is_proxy`: a trusted proxy sent it.
    pub fn new(info: &RequestInfo, is_proxy: bool) -> Self {
        match info.scheme() {
            Scheme::Http => Self::Plain,
            Scheme::Https if is_proxy => Self::TlsProxy,
            Scheme::Https => Self::Tls {
                port: info.port().unwrap_or(Scheme::Https.default_port()),
            },
        }
    }
}

/// Fields, and their lines.
#[derive(Clone, Debug, Default)]
struct WrittenFields {
    fields: Vec<HeaderField>,
    lines: Vec<u8>,
}

impl Compiled {
    /// `applies`: whether fields with this name are set and added.
    fn new(policy: &Policy, rule: Option<&Rule>, applies: impl Fn(&HeaderName) -> bool) -> Self {
        let site_changes = applied(&policy.changes, &applies);
        let rule = rule.map_or_else(Changes::default, |rule| applied(&rule.changes, &applies));
        let is_of_rule = |name: &HeaderName| {
            rule.remove.contains(name) || rule.set.iter().any(|(set, _)| set == name)
        };
        let of_site = |fields: &[HeaderField]| -> Vec<HeaderField> {
            let kept = fields.iter().filter(|(name, _)| !is_of_rule(name));
            kept.cloned().collect()
        };
        let fields = [
            of_site(&site_changes.set),
            rule.set.clone(),
            of_site(&site_changes.add),
            rule.add.clone(),
        ]
        .concat();
        let sts = header::STRICT_TRANSPORT_SECURITY;
        let hsts = policy.hsts.clone().map(|value| (sts.clone(), value));
        let set = site_changes
            .set
            .iter()
            .chain(&rule.set)
            .map(|(name, _)| name);
        let removed = site_changes.remove.iter().chain(&rule.remove);
        let mut removed: Vec<HeaderName> = removed.chain(set).cloned().collect();
        removed.extend(hsts.is_some().then_some(sts));
        removed.extend((!policy.alt_svc.is_empty()).then_some(header::ALT_SVC));
        let secure: Vec<HeaderField> = fields.iter().cloned().chain(hsts).collect();
        let advertising = policy.alt_svc.iter().map(|alternative| {
            let line = (header::ALT_SVC, alternative.value.clone());
            let fields = secure.iter().cloned().chain([line]).collect();
            (alternative.of_port, WrittenFields::new(fields))
        });
        let masks = removed.iter().map(|name| mask_of(name.as_str()));
        Self {
            advertising: advertising.collect(),
            mask: masks.fold(0, |all, one| all | one),
            removed,
            plain: WrittenFields::new(fields),
            secure: WrittenFields::new(secure),
        }
    }

    /// Whether a field of the original response is removed.
    pub fn drops(&self, name: &HeaderName) -> bool {
        self.mask & mask_of(name.as_str()) != 0 && self.removed.contains(name)
    }

    /// Whether any name with one of these bits may have to be removed: [`mask_of`].
    pub fn may_remove(&self, mask: u64) -> bool {
        self.mask & mask != 0
    }

    /// Whether any of these fields must be removed.
    pub fn touches(&self, fields: &HeaderMap) -> bool {
        self.removed.iter().any(|name| fields.contains_key(name))
    }

    /// The fields without the removed ones, in their order.
    #[must_use]
    pub fn stripped(&self, fields: &HeaderMap) -> HeaderMap {
        let left = fields
            .iter()
            .filter(|(name, _)| !self.removed.contains(name));
        left.map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }

    /// The fields after those of the original response. Only over TLS: `Strict-Transport-Security` (RFC 6797 section 7.2) and `Alt-Svc`
    /// (RFC 7838 section 2.1), which names a port of Galley and not of a proxy.
    pub fn fields(&self, recipient: Recipient) -> &[HeaderField] {
        &self.written(recipient).fields
    }

    /// The lines of [`Compiled::fields`]: `name: value` and CRLF each.
    pub fn lines(&self, recipient: Recipient) -> &[u8] {
        &self.written(recipient).lines
    }

    fn written(&self, recipient: Recipient) -> &WrittenFields {
        match recipient {
            Recipient::Plain => &self.plain,
            Recipient::Tls { port } => self
                .advertising
                .iter()
                .find(|(of_port, _)| of_port.is_none_or(|of_port| of_port == port))
                .map_or(&self.secure, |(_, written)| written),
            Recipient::TlsProxy => &self.secure,
        }
    }

    /// Stored lines without the removed ones; `mask` is the union of [`mask_of`] for their names. Usually one slice with all lines.
    pub fn left<'l>(&'l self, lines: &'l [u8], mask: u64) -> RemainingLines<'l> {
        let removed = if self.may_remove(mask) {
            self.removed.as_slice()
        } else {
            &[]
        };
        RemainingLines {
            rest: lines,
            removed,
        }
    }
}

/// The changes without the fields that do not apply.
fn applied(changes: &Changes, applies: impl Fn(&HeaderName) -> bool) -> Changes {
    let mut changes = changes.clone();
    changes.set.retain(|(name, _)| applies(name));
    changes.add.retain(|(name, _)| applies(name));
    changes
}

impl WrittenFields {
    fn new(fields: Vec<HeaderField>) -> Self {
        let mut lines = Vec::new();
        for (name, value) in &fields {
            lines.extend_from_slice(name.as_str().as_bytes());
            lines.extend_from_slice(b": ");
            lines.extend_from_slice(value.as_bytes());
            lines.extend_from_slice(b"\r\n");
        }
        Self { fields, lines }
    }
}

/// Iterates over the remaining pieces of stored lines.
#[derive(Clone, Debug)]
pub struct RemainingLines<'l> {
    rest: &'l [u8],
    removed: &'l [HeaderName],
}

impl<'l> Iterator for RemainingLines<'l> {
    type Item = &'l [u8];

    fn next(&mut self) -> Option<&'l [u8]> {
        if self.removed.is_empty() {
            let whole_rest = std::mem::take(&mut self.rest);
            return (!whole_rest.is_empty()).then_some(whole_rest);
        }
        while !self.rest.is_empty() {
            let end = memchr::memchr(b'\n', self.rest).map_or(self.rest.len(), |at| at + 1);
            let (line, rest) = self.rest.split_at(end);
            self.rest = rest;
            let is_removed = |name: &HeaderName| {
                line.strip_prefix(name.as_str().as_bytes())
                    .is_some_and(|rest| rest.first() == Some(&b':'))
            };
            if !self.removed.iter().any(is_removed) {
                return Some(line);
            }
        }
        None
    }
}

/// One bit of 64 for a name in lower case. Names with different bits are different.
pub fn mask_of(name: &str) -> u64 {
    let bytes = name.as_bytes();
    let at = |place: usize| bytes.get(place).map_or(0, |byte| u32::from(*byte));
    let last = bytes.len().saturating_sub(1);
    let mixed = at(0) + at(last) * 5 + at(bytes.len() / 2) * 11 + u32::from(bytes.len() > 12);
    1 << (mixed % 64)
}
