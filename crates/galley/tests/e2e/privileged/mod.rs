//! PHP that runs as other users than Galley, which has dropped root. A separate privileged process starts it.

mod protocol;
mod setup;
mod sites;
mod upgrade;
