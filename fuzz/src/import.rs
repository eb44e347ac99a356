//! Configurations of other web servers.

use std::path::{Path, PathBuf};

use galley_import::{ServerKind, Source, import as convert};

/// Returns the same text for every file.
struct SameText(String);

impl Source for SameText {
    fn text(&self, _: &Path) -> Option<String> {
        Some(self.0.clone())
    }

    fn matching(&self, pattern: &Path) -> Vec<PathBuf> {
        vec![pattern.to_owned()]
    }
}

/// Arbitrary text is converted for every kind of server, and each statement has exactly one result.
pub fn import(data: &[u8]) {
    let Some((kind, text)) = data.split_first() else {
        return;
    };
    let kind = match kind % 4 {
        0 => ServerKind::Nginx,
        1 => ServerKind::Varnish,
        2 => ServerKind::Apache,
        _ => ServerKind::Caddy,
    };
    let source = SameText(String::from_utf8_lossy(text).into_owned());
    let imported = convert(&source, &[(kind, PathBuf::from("/etc/server/main"))]);
    assert_eq!(imported.shares().all(), imported.statements.len());
    for statement in &imported.statements {
        assert!(!statement.text.contains('\n'), "{:?}", statement.text);
    }
}
