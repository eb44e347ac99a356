//! Opens the dashboard in the browser of the user who runs the command.
//!
//! Every user of the machine can read the arguments of running programs. The browser therefore opens a file that only its owner can
//! read, and that redirects to the URL; no argument contains the login token.

use std::io::{self, Write};
use std::process::{Command, Stdio};

use tempfile::NamedTempFile;

/// Opens a URL. The file must exist until the browser has read it. `None`: there is no desktop.
pub(super) fn open(address: &str) -> io::Result<Option<NamedTempFile>> {
    let has_desktop = ["DISPLAY", "WAYLAND_DISPLAY"]
        .iter()
        .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
    // Browsers refuse to run as root.
    if !has_desktop || rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let mut builder = tempfile::Builder::new();
    let builder = builder.prefix("galley-dashboard-").suffix(".html");
    let mut file = match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(folder) => builder.tempfile_in(folder),
        None => builder.tempfile(),
    }?;
    file.write_all(page(address).as_bytes())?;
    let opened = Command::new("xdg-open")
        .arg(file.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match opened {
        Ok(mut program) => {
            std::thread::spawn(move || program.wait());
            Ok(Some(file))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The page that redirects. `address` comes from this program and contains no characters that need escaping in HTML.
fn page(address: &str) -> String {
    format!(
        "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">\
         <meta http-equiv=\"refresh\" content=\"0;url={address}\"><title>Galley</title>\
         <a href=\"{address}\">Open the dashboard</a>\n"
    )
}
