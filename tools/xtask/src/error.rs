//! The error of a command.

use std::error::Error;

/// An error with a message for the user.
pub(crate) type CommandError = Box<dyn Error>;
