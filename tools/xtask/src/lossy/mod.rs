//! `xtask lossy`: the time to a page over HTTP/2 and over HTTP/3 on a path that loses packets. See `command`.

mod command;
mod page;
mod path;

pub(crate) use self::{
    command::{Arguments, run},
    page::{PageArguments, run as load_page},
};
