//! Certificates that Galley gets by itself.

use crate::options::OptionRow;

pub(super) static ROWS: &[OptionRow] = &[];
