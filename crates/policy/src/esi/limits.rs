//! The limits on includes.

/// The maximum depth of nested includes: a page, its includes, their includes, and those of these.
pub const MAX_DEPTH: u8 = 3;

/// The maximum number of includes in one page, without those of its includes.
pub const MAX_INCLUDES: usize = 32;
