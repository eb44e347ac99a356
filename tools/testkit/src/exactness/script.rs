//! Runs a PHP script in WordPress, through the interface that a person or a program would use (assets/exactness/scripts.php).

use super::{
    editor::Editor,
    test_site::{ExactnessSite, HOST},
};
use crate::{
    TestkitError,
    client::{Request, Response},
};

/// The interface that runs a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Via {
    /// `admin-ajax.php` as administrator.
    Admin,
    /// `admin-post.php` as administrator, answered by a redirect.
    Form,
    /// A REST `POST` as administrator.
    Rest,
    /// `admin-ajax.php` without a login.
    Visitor,
    /// A `GET` without a login whose response is not stored.
    Link,
    /// `wp-cron.php`, after its response.
    Cron,
    /// PHP on the command line.
    Cli,
}

/// How a script ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    /// With its last statement.
    Normal,
    /// With `exit`.
    Exit,
    /// With a fatal error.
    Fatal,
    /// With SIGKILL.
    Killed,
}

impl Via {
    pub(super) const ALL: [Self; 7] = [
        Self::Admin,
        Self::Form,
        Self::Rest,
        Self::Visitor,
        Self::Link,
        Self::Cron,
        Self::Cli,
    ];

    /// The name in tables and in the header comment of scripts.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Form => "form",
            Self::Rest => "rest",
            Self::Visitor => "visitor",
            Self::Link => "link",
            Self::Cron => "cron",
            Self::Cli => "cli",
        }
    }

    /// Whether the server reads the response until the script ends, so that it knows when PHP dies.
    pub(super) fn is_watched(self) -> bool {
        match self {
            Self::Admin | Self::Form | Self::Rest | Self::Visitor => true,
            // The server may send a GET again, and the others work without a response.
            Self::Link | Self::Cron | Self::Cli => false,
        }
    }
}

/// Runs the script with this name.
///
/// # Errors
/// [`TestkitError::Refused`] if it does not end as `end` states.
pub(super) fn run_script(
    editor: &mut Editor<'_>,
    via: Via,
    end: End,
    name: &str,
) -> Result<(), TestkitError> {
    let fields = [("action", "exact_script"), ("exact_script", name)];
    let response = match via {
        Via::Admin => editor.send(Request::form(AJAX, &fields))?,
        Via::Form => editor.send(Request::form("/wp-admin/admin-post.php", &fields))?,
        Via::Rest => {
            let target = format!("/wp-json/exact/v1/script?exact_script={name}");
            let nonce = editor.rest_nonce().to_owned();
            let request = Request::post(&target, "application/json", "{}");
            editor.send(request.field("X-WP-Nonce", nonce))?
        }
        Via::Visitor => send_as_visitor(editor.site, Request::form(AJAX, &fields))?,
        Via::Link => send_as_visitor(editor.site, Request::get(&format!("/?exact_script={name}")))?,
        Via::Cron => {
            let target = format!("/wp-cron.php?doing_wp_cron&exact_script={name}");
            send_as_visitor(editor.site, Request::post(&target, "text/plain", ""))?;
            return editor.site.wait_for_cron();
        }
        Via::Cli => return on_command_line(editor, end, name),
    };
    require_end(end, name, &response)
}

fn send_as_visitor(site: &ExactnessSite, request: Request) -> Result<Response, TestkitError> {
    request.host(HOST).send(site.addr())
}

fn on_command_line(editor: &Editor<'_>, end: End, name: &str) -> Result<(), TestkitError> {
    let result = editor.command_line(&format!("Galley\\Exactness\\Scripts\\run('{name}');"));
    match end {
        End::Normal | End::Exit => result,
        End::Fatal | End::Killed => Ok(()),
    }
}

fn require_end(end: End, name: &str, response: &Response) -> Result<(), TestkitError> {
    let text = response.text();
    let is_expected = match end {
        End::Normal => response.status == 302 || response.status == 200 && text.contains(DONE),
        End::Exit => response.status == 200 && !text.contains(DONE),
        End::Fatal => response.status == 500,
        End::Killed => response.status >= 502,
    };
    if is_expected {
        return Ok(());
    }
    Err(TestkitError::Refused(format!(
        "script `{name}` did not end as expected ({end:?}):\n{}",
        response.excerpt()
    )))
}

const AJAX: &str = "/wp-admin/admin-ajax.php";
const DONE: &str = "the script has ended";
