//! Query strings, parsed exactly as PHP parses them.
//!
//! An ignored parameter is dropped from the key *and* from the upstream request, so a name that only Galley ignores
//! cannot smuggle a value past the key. Names are compared after one decoding (`utm%5fsource`), reasons to pass
//! after PHP's renaming (`preview.id` and `preview[id` are `$_GET['preview_id']`). Only `&` separates parameters. Parameters
//! are sorted by the PHP variable that they set; the sort is stable, so the last value of a variable stays the last.

mod normalize;
mod pairs;

pub use self::normalize::normalize;
pub(crate) use self::normalize::{QueryCacheability, drops_all, scan, write_dropped, write_kept};
pub use self::pairs::MAX_PARAMETERS;
pub(crate) use self::pairs::{
    FormDecoded, Parameter, is_urlencoded, split_pair, variable, variables,
};
