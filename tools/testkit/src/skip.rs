//! Tests that cannot run on this machine.

use std::fs::OpenOptions;
use std::io::Write;
use std::thread;

/// Says why a test does not run, and records it for the end of `make test`, in the file that the variable `GALLEY_SKIPPED` names.
///
/// # Panics
/// If the file cannot be written.
#[expect(clippy::print_stderr, reason = "a test's output")]
pub fn skip(why: &str) {
    let why = why.replace('\n', " ");
    let thread = thread::current();
    let test = thread.name().unwrap_or("a thread of a test");
    eprintln!("{test}: SKIPPED, {why}");
    if let Some(path) = std::env::var_os("GALLEY_SKIPPED") {
        let file = OpenOptions::new().append(true).create(true).open(path);
        let line = format!("{test}: {why}\n");
        let mut file = file.expect("the list of skipped tests");
        // In one call, because tests run side by side.
        file.write_all(line.as_bytes()).expect("a line of it");
    }
}
