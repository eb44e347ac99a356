//! The limits on what a page may include.

/// How deep includes may be nested: a page, its includes, theirs, and theirs.
pub const MAX_DEPTH: u8 = 3;

/// The most includes of one page, without those of its includes.
pub const MAX_INCLUDES: usize = 32;
