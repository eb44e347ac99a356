//! The queries and actions of the admin interface that the page may request, by name. The admin interface decides what is
//! visible.

use bytes::Bytes;

/// A request to the admin interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminCall {
    /// `GET` or `POST`.
    pub method: &'static str,
    /// Path and query.
    pub target: String,
    /// A JSON body, or nothing.
    pub body: Bytes,
}

/// Finds a query by name.
pub fn read(name: &str, query: Option<&str>) -> Option<AdminCall> {
    let path = READS
        .iter()
        .find(|path| path.strip_prefix('/') == Some(name))?;
    let target = match query {
        Some(query) => format!("{path}?{query}"),
        None => (*path).to_owned(),
    };
    Some(AdminCall {
        method: "GET",
        target,
        body: Bytes::new(),
    })
}

/// Finds an action by name.
pub fn action(name: &str, body: Bytes) -> Option<AdminCall> {
    let (path, body) = match name {
        "why" => ("/why", body),
        "purge" => ("/purge", body),
        // Reloading the file requires permission to edit it, so it is a command on the command line.
        "compare" => ("/reload", Bytes::from_static(br#"{"compare":true}"#)),
        _ => return None,
    };
    Some(AdminCall {
        method: "POST",
        target: path.to_owned(),
        body,
    })
}

/// The queries that the page may request.
const READS: &[&str] = &[
    "/status",
    "/history",
    "/cache",
    "/config",
    "/not-cached",
    "/purges",
];

/// The maximum size of an action's body, in bytes: one URL or a few.
pub const MAX_BODY: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_calls_are_permitted() {
        let target = |name| read(name, Some("site=a")).map(|call| call.target);
        assert_eq!(target("status"), Some("/status?site=a".to_owned()));
        for name in [
            "",
            "metrics",
            "reload",
            "/status",
            "../status",
            "purge",
            "upgrade",
        ] {
            assert_eq!(target(name), None, "{name}");
        }
        let action = |name| action(name, Bytes::from_static(b"{}"));
        assert_eq!(action("purge").unwrap().target, "/purge");
        let compare = action("compare").unwrap();
        assert_eq!(compare.target, "/reload");
        assert!(compare.body.ends_with(b":true}"));
        for name in ["", "reload", "upgrade", "cron", "status"] {
            assert_eq!(action(name), None, "{name}");
        }
    }
}
