//! Response fields that a site's configuration adds, sets or removes.
//!
//! [`Changes`] is the configuration, [`Compiled`] the changes for one rule: names to remove, and fields to write after the
//! stored ones. These fields are the same for every response, so their lines are prepared. A rule's changes are applied after
//! those of its site. Fields about the length, the connection or the date of a message cannot be changed: [`refusal`].

mod changes;
mod compiled;

pub use self::changes::{
    Changes, FieldChange, FieldName, HIDDEN, HeaderField, parse_line, parse_name, refusal,
};
pub use self::compiled::{Compiled, HeadChanges, Recipient, RemainingLines, mask_of};

#[cfg(test)]
mod tests;
