//! HTTP/2.

use crate::options::OptionRow;

pub(super) static ROWS: &[OptionRow] = &[];
