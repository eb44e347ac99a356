//! The tables of header compression: the static one (RFC 7541 appendix A), and a client's dynamic one (section 2.3.2).

use std::collections::VecDeque;

/// The dynamic table of a client. The fields are in one buffer, oldest first.
#[derive(Debug)]
pub(super) struct DynamicTable {
    bytes: Vec<u8>,
    /// The number of bytes that were removed from the front of the buffer since the start.
    base: usize,
    /// The fields, oldest first.
    entries: VecDeque<TableEntry>,
    /// The size of the table, as RFC 7541 section 4.1 counts it.
    size: usize,
    most: usize,
}

#[derive(Clone, Copy, Debug)]
struct TableEntry {
    at: usize,
    name: usize,
    value: usize,
}

impl Default for DynamicTable {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            base: 0,
            entries: VecDeque::new(),
            size: 0,
            most: MAX_SIZE,
        }
    }
}

impl DynamicTable {
    /// The field with this index. The first index is 1.
    pub(super) fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let index = index.checked_sub(1)?;
        if let Some((name, value)) = STATIC.get(index) {
            return Some((name.as_bytes(), value.as_bytes()));
        }
        let newest = self.entries.len().checked_sub(1)?;
        let place = newest.checked_sub(index - STATIC.len())?;
        let entry = self.entries.get(place)?;
        let bytes = self.bytes.get(entry.at.checked_sub(self.base)?..)?;
        let (name, rest) = bytes.split_at_checked(entry.name)?;
        Some((name, rest.get(..entry.value)?))
    }

    /// Inserts a field. A field larger than the table empties it (RFC 7541 section 4.4).
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8]) {
        let size = size_of_field(name.len(), value.len());
        self.evict(self.most.saturating_sub(size));
        if size > self.most {
            return;
        }
        self.compact();
        self.entries.push_back(TableEntry {
            at: self.base + self.bytes.len(),
            name: name.len(),
            value: value.len(),
        });
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        self.size += size;
    }

    /// Sets the maximum size; false if it exceeds the limit.
    pub(super) fn resize(&mut self, most: usize) -> bool {
        if most > MAX_SIZE {
            return false;
        }
        self.most = most;
        self.evict(most);
        true
    }

    /// Removes the oldest fields until at most `size` remains.
    fn evict(&mut self, size: usize) {
        while self.size > size
            && let Some(entry) = self.entries.pop_front()
        {
            self.size -= size_of_field(entry.name, entry.value);
        }
    }

    /// Releases the memory of removed fields, if it is large.
    fn compact(&mut self) {
        let end = self.base + self.bytes.len();
        let begin = self.entries.front().map_or(end, |entry| entry.at);
        let removed = begin - self.base;
        if removed >= MAX_SIZE / 2 || removed == self.bytes.len() {
            self.bytes.drain(..removed);
            self.base = begin;
        }
    }
}

const MAX_SIZE: usize = TABLE_BYTES as usize;

/// The static table (RFC 7541 appendix A).
pub(super) const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// The default size of the table in bytes, as RFC 7541 section 4.1 counts it (RFC 9113 section 6.5.2).
pub const TABLE_BYTES: u32 = 4096;

/// The size of a field by RFC 7541 section 4.1 and RFC 9113 section 6.5.2.
pub(super) const fn size_of_field(name: usize, value: usize) -> usize {
    name.saturating_add(value).saturating_add(32)
}
