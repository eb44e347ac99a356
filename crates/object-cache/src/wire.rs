//! The messages between PHP and the object cache, as bytes. All numbers are little-endian.
//!
//! ```text
//! message    u32 length of the rest, u8 operation, body
//! 1 start    u8 version = 5, u8 adopt, u8 n, token, u8 n, stamp, u8 n, fence, 16 namespace, 16 URL, 16 pattern
//!            answer: u8 status, plus `AMONG_NODES` in a cluster; if `STARTED`: u64 counter, u32 f, f bytes filter, items
//! 3 get      u32 n, n * u32 key length, keys
//!            answer: u64 counter, n * u32 value length, values, items
//! 4 change   u32 n, n times: u8 kind, u64 lease, u32 seconds, u32 key length, u32 value length, key, value
//!            answer: u64 counter, n times: u8 outcome, i64 number
//! 5 tell     as 4, without an answer: values that nobody needs
//! 8 send     as 4, without an answer: in effect before a process that connects from now on gets its first answer
//! 6 writes   empty, no answer: the process is about to write to the database
//! 7 end      u32 values that the process knew to be missing, u32 queries, u32 saved queries, u8 1 with a report, u32 n, n * u32 key length,
//!            keys; no answer: what the process wrote is announced. The highest bit of a length: the first answer did not contain the key
//! answer     u32 length of the rest, rest
//! items      u32 n, n * u32 key length, n * u32 value length, keys, values
//! ```
//!
//! The filter has a power of two of bytes; a key without all of its bits has no value. Its bits are `crc32`, `crc32 >> 7` and `crc32 >> 14`,
//! modulo the number of bits. A value length of [`ABSENT`] is a key without a value, [`LATER`] one whose value did not fit into the answer.

use crate::learner::Foreseen;
use crate::store::{ChangeKind, ChangeOutcome, ValueChange};

/// The start of a process: who it is, and what it knows of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start<'a> {
    /// Whether the process has done what must happen before the store may be used again: the store is emptied and takes over fence and stamp.
    pub adopt: bool,
    /// The site's token.
    pub token: &'a [u8],
    /// Identifies the files of the drop-in.
    pub stamp: &'a [u8],
    /// The fence in the database.
    pub fence: &'a [u8],
    /// Identifies the database.
    pub namespace: [u8; 16],
    /// The URL and the login state.
    pub url: [u8; 16],
    /// The pattern of the URL and the login state.
    pub pattern: [u8; 16],
}

/// A message of a process.
#[derive(Debug)]
pub enum PhpMessage<'a> {
    /// Begins.
    Start(Start<'a>),
    /// Asks for values.
    Get(Vec<&'a [u8]>),
    /// Changes values, which others read from now on.
    Change {
        /// What to do.
        changes: Vec<ValueChange<'a>>,
        /// Whether the process waits for the outcomes.
        waits: bool,
    },
    /// Stores values from the database.
    Tell(Vec<ValueChange<'a>>),
    /// Announces that the database will change.
    Writes,
    /// Ends.
    End {
        /// Values that the process knew to be missing, so that it did not ask.
        misses: u32,
        /// Queries that the process has sent to the database.
        queries: u32,
        /// Queries that the values of its answers took when they were read from the database.
        saved: u32,
        /// The keys that were read.
        report: Option<Vec<(&'a [u8], Foreseen)>>,
    },
}

/// Reads a message without its length. `None`: it is damaged.
pub fn parse(message: &[u8]) -> Option<PhpMessage<'_>> {
    let mut reader = MessageReader(message);
    let message = match reader.byte()? {
        1 => PhpMessage::Start(start(&mut reader)?),
        3 => PhpMessage::Get(keys(&mut reader)?),
        operation @ (4 | 8) => PhpMessage::Change {
            changes: changes(&mut reader)?,
            waits: operation == 4,
        },
        5 => PhpMessage::Tell(changes(&mut reader)?),
        6 => PhpMessage::Writes,
        7 => PhpMessage::End {
            misses: u32::from_le_bytes(reader.array()?),
            queries: u32::from_le_bytes(reader.array()?),
            saved: u32::from_le_bytes(reader.array()?),
            report: match reader.byte()? {
                0 => None,
                1 => Some(report(&mut reader)?),
                _ => return None,
            },
        },
        _ => return None,
    };
    reader.0.is_empty().then_some(message)
}

fn start<'a>(reader: &mut MessageReader<'a>) -> Option<Start<'a>> {
    if reader.byte()? != VERSION {
        return None;
    }
    Some(Start {
        adopt: reader.byte()? == 1,
        token: reader.short()?,
        stamp: reader.short()?,
        fence: reader.short()?,
        namespace: reader.array()?,
        url: reader.array()?,
        pattern: reader.array()?,
    })
}

fn keys<'a>(reader: &mut MessageReader<'a>) -> Option<Vec<&'a [u8]>> {
    let count = reader.count().filter(|count| *count <= MAX_ASKED)?;
    let lengths: Option<Vec<usize>> = (0..count).map(|_| reader.count()).collect();
    lengths?.into_iter().map(|n| reader.take(n)).collect()
}

fn report<'a>(reader: &mut MessageReader<'a>) -> Option<Vec<(&'a [u8], Foreseen)>> {
    let count = reader.count().filter(|count| *count <= MAX_ASKED)?;
    let lengths: Option<Vec<u32>> = (0..count)
        .map(|_| reader.array().map(u32::from_le_bytes))
        .collect();
    let keys = lengths?.into_iter().map(|length| {
        let how = if length & NOT_FORESEEN == 0 {
            Foreseen::Yes
        } else {
            Foreseen::No
        };
        let key = reader.take(usize::try_from(length & !NOT_FORESEEN).ok()?)?;
        Some((key, how))
    });
    keys.collect()
}

const NOT_FORESEEN: u32 = 1 << 31;

/// More keys than any request of WordPress names in one message. They take a few milliseconds, for which all other processes wait.
const MAX_ASKED: usize = 1 << 16;

fn changes<'a>(reader: &mut MessageReader<'a>) -> Option<Vec<ValueChange<'a>>> {
    let count = reader.count().filter(|count| *count <= MAX_ASKED)?;
    (0..count).map(|_| change(reader)).collect()
}

fn change<'a>(reader: &mut MessageReader<'a>) -> Option<ValueChange<'a>> {
    let kind = match reader.byte()? {
        1 => ChangeKind::Set,
        2 => ChangeKind::Add,
        4 => ChangeKind::Delete,
        5 => ChangeKind::Increment,
        6 => ChangeKind::FlushGroup,
        7 => ChangeKind::Flush,
        _ => return None,
    };
    let lease = u64::from_le_bytes(reader.array()?);
    let ttl = u32::from_le_bytes(reader.array()?);
    let (key, value) = (reader.count()?, reader.count()?);
    Some(ValueChange {
        kind,
        lease,
        ttl,
        key: reader.take(key)?,
        value: reader.take(value)?,
    })
}

/// The answer to a start that is not [`STARTED`].
pub fn status(status: u8) -> Vec<u8> {
    framed(vec![status])
}

/// The answer to a successful start.
pub fn started(counter: u64, filter: &[u8], items: &[(&[u8], ObjectValue<'_>)]) -> Vec<u8> {
    let mut body = vec![STARTED];
    body.extend(counter.to_le_bytes());
    put_length(&mut body, filter.len());
    body.extend_from_slice(filter);
    put_items(&mut body, items);
    framed(body)
}

/// The answer to a get, with what was asked for and with what will be read next.
pub fn values(
    counter: u64,
    found: &[ObjectValue<'_>],
    next: &[(&[u8], ObjectValue<'_>)],
) -> Vec<u8> {
    let mut body = counter.to_le_bytes().to_vec();
    put_values(&mut body, found.iter().copied(), |_| ());
    put_items(&mut body, next);
    framed(body)
}

fn put_items(body: &mut Vec<u8>, items: &[(&[u8], ObjectValue<'_>)]) {
    put_length(body, items.len());
    for (key, _) in items {
        put_length(body, key.len());
    }
    put_values(body, items.iter().map(|(_, found)| *found), |body| {
        for (key, _) in items {
            body.extend_from_slice(key);
        }
    });
}

/// The answer to changes.
pub fn outcomes(counter: u64, outcomes: &[ChangeOutcome]) -> Vec<u8> {
    let mut body = counter.to_le_bytes().to_vec();
    for outcome in outcomes {
        let (word, number) = match outcome {
            ChangeOutcome::Refused => (0, 0),
            ChangeOutcome::Done => (1, 0),
            ChangeOutcome::Conflict => (2, 0),
            ChangeOutcome::Number(number) => (3, *number),
        };
        body.push(word);
        body.extend(number.to_le_bytes());
    }
    framed(body)
}

/// What was found for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectValue<'a> {
    /// The value.
    Value(&'a [u8]),
    /// There is no value.
    Absent,
    /// There is a value, which does not fit into the answer.
    Later,
}

fn put_values<'a>(
    body: &mut Vec<u8>,
    found: impl Iterator<Item = ObjectValue<'a>> + Clone,
    between: impl FnOnce(&mut Vec<u8>),
) {
    for one in found.clone() {
        match one {
            ObjectValue::Value(value) => put_length(body, value.len()),
            ObjectValue::Absent => body.extend(ABSENT.to_le_bytes()),
            ObjectValue::Later => body.extend(LATER.to_le_bytes()),
        }
    }
    between(body);
    for one in found {
        if let ObjectValue::Value(value) = one {
            body.extend_from_slice(value);
        }
    }
}

/// No length comes near the limit.
pub(crate) fn put_length(body: &mut Vec<u8>, length: usize) {
    body.extend(u32::try_from(length).unwrap_or(LATER).to_le_bytes());
}

fn framed(body: Vec<u8>) -> Vec<u8> {
    let mut message = Vec::with_capacity(body.len() + 4);
    put_length(&mut message, body.len());
    message.extend(body);
    message
}

/// Reads parts of bytes that may be damaged.
pub(crate) struct MessageReader<'a>(pub(crate) &'a [u8]);

impl<'a> MessageReader<'a> {
    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn short(&mut self) -> Option<&'a [u8]> {
        let length = self.byte()?;
        self.take(usize::from(length))
    }

    /// A length or a number of items: never more than bytes are left, so that no allocation exceeds the message.
    pub(crate) fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(u32::from_le_bytes(self.array()?)).ok()?;
        (count <= self.0.len()).then_some(count)
    }
}

/// The version of these messages.
pub const VERSION: u8 = 5;

/// The process may use the store.
pub const STARTED: u8 = 0;

/// The store does not know the fence or the stamp of the process, which has to adopt them.
pub const BEHIND: u8 = 1;

/// The process must not use the store.
pub const REFUSED: u8 = 2;

/// Added to a status: the site has several nodes with a store each, whose acknowledgements take longer, and values differ between them.
pub const AMONG_NODES: u8 = 0x80;

/// The value length of a key without a value.
pub const ABSENT: u32 = u32::MAX;

/// The value length of a value that has to be asked for.
pub const LATER: u32 = u32::MAX - 1;

/// The longest message of a process that has started, in bytes.
pub const MAX_MESSAGE: usize = 16 << 20;

/// The longest message of a process that has not.
pub const MAX_START: usize = 1024;

#[cfg(test)]
mod tests;
