//! `xtask seeds`: five published articles about fast WordPress sites, rebuilt from their own configuration and measured beside
//! Galley, with the command line that each article measured with.
//!
//! [`article`] holds the facts of the articles. A [`stage`] has one WordPress for all; a [`stack`] is what one article put in
//! front of it, or Galley. [`mod@line`] measures, [`probe`] checks what the author had trouble with. Progress goes to stderr,
//! the table or, with `--json`, all that was found to stdout; `docs/seeds.md` and its charts are written after a run of all five.

mod article;
mod articles;
mod command;
mod editor;
mod line;
mod outcome;
mod page;
mod probe;
mod stack;
mod stage;

pub(crate) use command::{Arguments, run};
