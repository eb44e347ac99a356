//! The access control of a site: its password files, and whether it needs any check for a `GET`. [`super::access`] applies it.

use std::sync::Arc;

use galley_policy::access::By;
use galley_policy::site::Policy;

use crate::access::Passwords;

/// What access control needs of a site, read once from its configuration.
pub struct AccessControl {
    /// Whether no `GET` of the site needs a check.
    pub(super) stands_open: bool,
    /// The password files, by the option that names them.
    pub(super) passwords: Vec<(By, Arc<Passwords>)>,
}

impl AccessControl {
    /// That of a site with these rules.
    pub fn new(rules: &Policy) -> Self {
        let passwords = rules
            .password_files()
            .map(|(by, file)| (by, Arc::new(Passwords::of(file))))
            .collect();
        Self {
            stands_open: rules.is_open(),
            passwords,
        }
    }
}
