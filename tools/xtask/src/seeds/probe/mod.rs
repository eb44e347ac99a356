//! The troubles of the articles' authors, each checked by doing what a visitor or an editor would do.
//!
//! Every stack of an article starts with empty caches, so each probe requests a page of its own and knows what is stored of it.
//! What a probe cannot do, because the stack does not let it, is the trouble itself.

mod check;
mod content;
mod scheduled;
mod serving;
mod visitors;

pub(super) use self::{check::check, scheduled::Scheduled};
