//! Fields that a site's file adds to responses, sets in them and takes out of them.
//!
//! [`Changes`] is what the file says, [`Compiled`] what that means for one rule: names to leave out, and fields to write
//! behind the stored ones, which are the same for every answer and so lie there as lines. A rule's changes come on top of
//! its site's. What says how long a message is, whose it is or when it was made cannot be changed: [`refusal`].

mod changes;
mod compiled;

pub use self::changes::{
    Changes, FieldChange, FieldName, HIDDEN, HeaderField, parse_line, parse_name, refusal,
};
pub use self::compiled::{Compiled, HeadChanges, Left, mask_of};

#[cfg(test)]
mod tests;
