//! Fields that a site's configuration adds to responses, sets or removes.
//!
//! [`Changes`] is the configuration, [`Compiled`] its effect for one rule: names to omit, and fields to write behind the
//! stored ones, which are the same for every response and therefore prepared as lines. A rule's changes are applied after
//! those of its site. Fields about the length, the connection or the date of a message cannot be changed: [`refusal`].

mod changes;
mod compiled;

pub use self::changes::{
    Changes, FieldChange, FieldName, HIDDEN, HeaderField, parse_line, parse_name, refusal,
};
pub use self::compiled::{Compiled, HeadChanges, Left, mask_of};

#[cfg(test)]
mod tests;
