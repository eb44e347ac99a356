//! The meaning of a request path below a root: `try_files` for WordPress.
//!
//! In this order: a file that exists; a script with path info (`/x.php/info`); a directory's index; on a multisite the same
//! without the site's name; otherwise the front controller, `/index.php`. The extension in a URL decides nothing: a path is
//! a static file if and only if a regular file exists there.
//!
//! Two checks decide whether a file may be sent: names (`deny`) and `.htaccess` files (`htaccess`). Each is applied to the
//! requested path, to the path that it was resolved to, and to that path with its symbolic links resolved.

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use galley_policy::cgi::Script;
use rustix::io::Errno;

use crate::asset::{Asset, FileForm, is_resource_error};
use crate::cached_lookup::CachedLookup;
use crate::deny::{self, ScriptName};
use crate::htaccess::{self, AccessSubject, PublicAccess, Rules};
use crate::open_root::OpenRoot;
use crate::options::Options;
use crate::path::RelPath;
use crate::pictures::PictureSearch;
use crate::tree::{Node, RealPath};

/// The result of resolving a path.
#[derive(Debug)]
pub enum Resolved {
    /// A regular file, opened.
    File(Asset),
    /// A script for PHP: it exists, is a regular file below the root and ends in `.php`.
    Script(Script),
    /// A directory requested without its slash: the decoded path with the slash.
    Redirect(Vec<u8>),
    /// Nothing that Galley serves: no such file, or a script while scripts run elsewhere.
    Missing,
    /// A path that must not be served.
    Denied,
    /// The disk could not be read, or the process has no file descriptors left: the meaning of the path is unknown.
    Failed(io::Error),
}

/// The treatment of files that are programs by their extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Programs {
    /// They are not executed, so they would be sent as text.
    Refused,
    /// A separate server runs them.
    Run,
}

/// What a path names, before the access checks.
enum PathTarget {
    File(RelPath, Option<RealPath>),
    Script {
        at: RelPath,
        real: Option<RealPath>,
        path_info: Option<Vec<u8>>,
    },
    /// A directory with an index, requested without its slash.
    Directory,
    /// Behind a link that leads out of the root and the permitted folders.
    Outside,
    /// A device or similar, or a path without permission.
    Closed,
    /// A directory without an index.
    Bare,
    /// No such file or directory, or a file that was requested as a directory.
    Nothing,
}

/// One resolution of a path.
pub(crate) struct PathLookup<'t> {
    pub(crate) root: &'t OpenRoot,
    pub(crate) options: &'t Options,
    programs: Programs,
    pub(crate) now: Instant,
    /// Set if the resolution must not wait for the disk.
    pub(crate) in_memory: Option<CachedLookup<'t>>,
    /// The error of a failed lookup.
    failed: Cell<Option<Errno>>,
}

impl<'t> PathLookup<'t> {
    pub(crate) fn new(root: &'t OpenRoot, options: &'t Options, now: Instant) -> Self {
        Self {
            root,
            options,
            programs: Programs::Refused,
            now,
            in_memory: None,
            failed: Cell::new(None),
        }
    }

    /// Permits files that are programs by their extension, because a separate server runs them.
    pub(crate) fn with_programs(self) -> Self {
        Self {
            programs: Programs::Run,
            ..self
        }
    }

    /// See [`crate::Root::resolve`].
    pub(crate) fn find(&self, decoded_path: &[u8]) -> Resolved {
        let resolved = self.resolve(decoded_path);
        self.unless_failed(resolved)
    }

    /// See [`crate::Root::resolve_script`].
    pub(crate) fn find_script(mut self, decoded_path: &[u8]) -> Option<Script> {
        self.in_memory = Some(CachedLookup::begin(self.root));
        match self.resolve(decoded_path) {
            Resolved::Script(script) if self.was_in_memory() => Some(script),
            _ => None,
        }
    }

    /// See [`crate::Root::program`].
    pub(crate) fn find_program(&self, decoded_path: &[u8]) -> Resolved {
        let resolved = self.program(decoded_path);
        self.unless_failed(resolved)
    }

    /// The result, or the error if a lookup failed.
    fn unless_failed(&self, resolved: Resolved) -> Resolved {
        match self.failed.get() {
            Some(errno) => Resolved::Failed(errno.into()),
            None => resolved,
        }
    }

    fn was_in_memory(&self) -> bool {
        self.in_memory.as_ref().is_some_and(CachedLookup::is_valid)
    }

    pub(crate) fn node(&self, relative: &[u8]) -> Node {
        let Some(in_memory) = &self.in_memory else {
            let node = self.root.tree.look(relative);
            if let Node::Failed(errno) = node {
                self.failed.set(Some(errno));
            }
            return node;
        };
        in_memory.node(relative).unwrap_or(Node::Refused)
    }

    /// The directory that contains a file, and the link-free path below it.
    pub(crate) fn located<'p>(
        &self,
        at: &'p RelPath,
        real: Option<&'p RealPath>,
    ) -> (&'t OpenRoot, &'p [u8]) {
        match real {
            Some(real) => (self.root.home(real), &real.text),
            None => (self.root, at.text()),
        }
    }

    fn rules(&self, home: &OpenRoot, relative: &[u8]) -> Option<Arc<Rules>> {
        let Some(in_memory) = &self.in_memory else {
            return home.htaccess.rules_of(&home.tree, relative, self.now);
        };
        let cached = self.root.htaccess.cached(relative, self.now);
        if cached.is_none() {
            // A path that is not a directory has no rules, and is not cached; see [`HtaccessCache`](htaccess::HtaccessCache).
            let node = in_memory.node(relative);
            if !matches!(node, Some(Node::Absent | Node::Regular(_))) {
                in_memory.fail();
            }
        }
        cached
    }

    fn program(&self, decoded_path: &[u8]) -> Resolved {
        let Some(path) = RelPath::parse(decoded_path) else {
            return Resolved::Denied;
        };
        for count in 1..=path.len() {
            let Node::Regular(located) = self.node(path.first(count)) else {
                continue;
            };
            let rest = path.after(count);
            let has_rest = count < path.len() || path.has_slash();
            let path_info = has_rest.then(|| [b"/".as_slice(), &rest].concat());
            return self.run(&path.up_to(count), located.real.as_ref(), path_info);
        }
        Resolved::Missing
    }

    fn resolve(&self, decoded_path: &[u8]) -> Resolved {
        let Some(path) = RelPath::parse(decoded_path) else {
            return Resolved::Denied;
        };
        if let Some(resolved) = self.attempt(&path) {
            return resolved;
        }
        if self.options.multisite
            && let Some(inner) = path.without_site()
            && let Some(resolved) = self.attempt(&inner)
        {
            return match resolved {
                Resolved::Redirect(_) => Resolved::Redirect(with_slash(&path)),
                resolved => resolved,
            };
        }
        self.front_controller(&path)
    }

    /// Resolves a path except for the front controller. `None`: nothing exists there, and access is not denied.
    fn attempt(&self, path: &RelPath) -> Option<Resolved> {
        if deny::forbids(path, self.options) {
            return Some(Resolved::Denied);
        }
        let target = self.target(path);
        // A file that is requested by its own name is checked below. If scripts run elsewhere, the upstream also checks the files
        // that are not sent from here.
        let is_checked_here = match &target {
            PathTarget::File(at, _) => at.text() != path.text(),
            PathTarget::Script { at, .. } => self.options.php && at.text() != path.text(),
            PathTarget::Directory => true,
            PathTarget::Outside | PathTarget::Closed | PathTarget::Bare | PathTarget::Nothing => {
                self.options.php
            }
        };
        if is_checked_here {
            // A directory that was just found not to exist has no rules.
            let most = match &target {
                PathTarget::Nothing => path.len().saturating_sub(1),
                _ => path.len(),
            };
            match self.access_within(self.root, path, most, AccessSubject::Requested) {
                PublicAccess::Public => {}
                PublicAccess::Unchecked if !self.options.php => return Some(Resolved::Missing),
                PublicAccess::Unchecked | PublicAccess::Denied => {
                    return Some(Resolved::Denied);
                }
            }
        }
        match target {
            PathTarget::File(at, real) => Some(self.file(&at, real.as_ref())),
            PathTarget::Script {
                at,
                real,
                path_info,
            } => Some(self.script(&at, real.as_ref(), path_info)),
            PathTarget::Directory => Some(Resolved::Redirect(with_slash(path))),
            PathTarget::Outside => Some(Resolved::Missing),
            PathTarget::Closed => Some(Resolved::Denied),
            PathTarget::Bare | PathTarget::Nothing => None,
        }
    }

    fn target(&self, path: &RelPath) -> PathTarget {
        if let Some(script) = self.script_with_info(path) {
            return script;
        }
        match self.node(path.text()) {
            Node::Regular(_) if path.has_slash() => PathTarget::Nothing,
            Node::Regular(located)
                if path.last().map(deny::script_name) == Some(ScriptName::Runs) =>
            {
                PathTarget::Script {
                    at: path.clone(),
                    real: located.real,
                    path_info: None,
                }
            }
            Node::Regular(located) => PathTarget::File(path.clone(), located.real),
            Node::Directory => self.index(path),
            Node::Special | Node::Refused | Node::Failed(_) => PathTarget::Closed,
            Node::Outside => PathTarget::Outside,
            Node::Absent => PathTarget::Nothing,
        }
    }

    /// `/x.php/info`: split after the first segment that is a script, never by a pattern (CVE-2019-11043).
    fn script_with_info(&self, path: &RelPath) -> Option<PathTarget> {
        let names = path.segments().enumerate();
        for (index, _) in names.filter(|(_, name)| deny::script_name(name) == ScriptName::Runs) {
            let count = index + 1;
            if count == path.len() && !path.has_slash() {
                break;
            }
            if let Node::Regular(located) = self.node(path.first(count)) {
                let mut path_info = vec![b'/'];
                path_info.extend_from_slice(&path.after(count));
                return Some(PathTarget::Script {
                    at: path.up_to(count),
                    real: located.real,
                    path_info: Some(path_info),
                });
            }
        }
        None
    }

    fn index(&self, directory: &RelPath) -> PathTarget {
        let names_directory = directory.has_slash() || directory.len() == 0;
        for name in INDEXES {
            let at = directory.child(name);
            let Node::Regular(located) = self.node(at.text()) else {
                continue;
            };
            return match (names_directory, deny::script_name(name)) {
                (false, _) => PathTarget::Directory,
                (true, ScriptName::Runs) => PathTarget::Script {
                    at,
                    real: located.real,
                    path_info: None,
                },
                (true, ScriptName::No | ScriptName::Never) => PathTarget::File(at, located.real),
            };
        }
        PathTarget::Bare
    }

    pub(crate) fn script(
        &self,
        at: &RelPath,
        real: Option<&RealPath>,
        path_info: Option<Vec<u8>>,
    ) -> Resolved {
        if self.is_denied(at, real, ScriptName::Runs) {
            return Resolved::Denied;
        }
        if !self.options.php {
            return Resolved::Missing;
        }
        self.run_if_public(at, real, path_info)
    }

    /// A program with any extension, for a FastCGI server that the site's rules name.
    fn run(&self, at: &RelPath, real: Option<&RealPath>, path_info: Option<Vec<u8>>) -> Resolved {
        let is_denied = deny::forbids(at, self.options)
            || real.is_some_and(|real| self.forbids_real(real, |_| false));
        if is_denied {
            return Resolved::Denied;
        }
        self.run_if_public(at, real, path_info)
    }

    fn run_if_public(
        &self,
        at: &RelPath,
        real: Option<&RealPath>,
        path_info: Option<Vec<u8>>,
    ) -> Resolved {
        if self.access_to(at, real, AccessSubject::Script) != PublicAccess::Public {
            return Resolved::Denied;
        }
        Resolved::Script(Script {
            filename: self.root.tree.absolute(at.text()),
            name: at.absolute(),
            path_info,
            document_root: self.root.tree.path().to_vec(),
        })
    }

    fn file(&self, at: &RelPath, real: Option<&RealPath>) -> Resolved {
        let name = at.last().unwrap_or_default();
        if deny::script_name(name) == ScriptName::Never && !self.options.php {
            // The upstream may execute it as a script; other files are sent by Galley.
            return Resolved::Missing;
        }
        if self.is_denied(at, real, ScriptName::No) || self.in_memory.is_some() {
            return Resolved::Denied;
        }
        match self.access_to(at, real, AccessSubject::File) {
            PublicAccess::Public => {}
            // An upstream that evaluates `.htaccess` can check the conditions that are not checked here.
            PublicAccess::Unchecked if !self.options.php => return Resolved::Missing,
            PublicAccess::Unchecked | PublicAccess::Denied => return Resolved::Denied,
        }
        let (home, real) = self.located(at, real);
        match Asset::open(&home.tree, real, name) {
            Ok(mut asset) => {
                let siblings = self.pictures(home, real, name, &asset.plain);
                asset.siblings.extend(siblings);
                Resolved::File(asset)
            }
            Err(error) if is_resource_error(&error) => Resolved::Failed(error),
            Err(_) => Resolved::Denied,
        }
    }

    /// The siblings of a picture.
    fn pictures(
        &self,
        home: &OpenRoot,
        real: &[u8],
        name: &[u8],
        plain: &FileForm,
    ) -> Vec<FileForm> {
        let search = PictureSearch {
            tree: &home.tree,
            options: self.options,
            now: self.now,
        };
        let may_be_sent = |path: &RelPath| self.may_be_sent(home, path);
        home.pictures
            .usable(&search, real, name, plain, may_be_sent)
    }

    /// Whether a file at a link-free path may be sent.
    fn may_be_sent(&self, home: &OpenRoot, path: &RelPath) -> bool {
        !self.is_denied(path, None, ScriptName::No)
            && self.access(home, path, AccessSubject::File) == PublicAccess::Public
    }

    /// Whether the names forbid access, with links unresolved or resolved, or the two names are not of the same kind.
    fn is_denied(&self, at: &RelPath, real: Option<&RealPath>, kind: ScriptName) -> bool {
        let is_wrong = |path: &RelPath| {
            (kind == ScriptName::No && self.forbids_file(path))
                || path.last().map(deny::script_name) != Some(kind)
        };
        deny::forbids(at, self.options)
            || is_wrong(at)
            || real.is_some_and(|real| self.forbids_real(real, is_wrong))
    }

    /// Whether the names forbid access to a path with its links resolved, or `is_wrong` says so.
    fn forbids_real(&self, real: &RealPath, is_wrong: impl Fn(&RelPath) -> bool) -> bool {
        RelPath::from_relative(&real.text).is_none_or(|path| {
            let is_forbidden = match real.linked {
                None => deny::forbids(&path, self.options),
                Some(_) => deny::forbids_linked(&path, self.options),
            };
            is_forbidden || is_wrong(&path)
        })
    }

    fn forbids_file(&self, path: &RelPath) -> bool {
        deny::forbids_file(path, self.options)
            || (self.programs == Programs::Refused && deny::is_program(path, self.options))
    }

    /// The access by the `.htaccess` files, for the path with links unresolved and resolved.
    fn access_to(
        &self,
        at: &RelPath,
        real: Option<&RealPath>,
        subject: AccessSubject,
    ) -> PublicAccess {
        let requested = self.access(self.root, at, subject);
        let Some(real) = real else {
            return requested;
        };
        match RelPath::from_relative(&real.text) {
            None => PublicAccess::Denied,
            Some(path) => requested.min(self.access(self.root.home(real), &path, subject)),
        }
    }

    fn access(&self, home: &OpenRoot, path: &RelPath, subject: AccessSubject) -> PublicAccess {
        // For an existing file, the last segment is known not to be a directory.
        let most = match subject {
            AccessSubject::Requested => path.len(),
            AccessSubject::File | AccessSubject::Script => path.len().saturating_sub(1),
        };
        self.access_within(home, path, most, subject)
    }

    /// As [`Self::access`]. At most the first `most` segments may be directories.
    fn access_within(
        &self,
        home: &OpenRoot,
        path: &RelPath,
        most: usize,
        subject: AccessSubject,
    ) -> PublicAccess {
        let chain: Vec<Arc<_>> = (0..=most)
            .map_while(|depth| self.rules(home, path.first(depth)))
            .collect();
        if chain.is_empty() {
            // The root itself does not exist any more.
            return PublicAccess::Denied;
        }
        let name = path.segment(chain.len() - 1).unwrap_or_default();
        htaccess::evaluate(&chain, path, name, subject)
    }
}

/// The path with a trailing slash. Made of segments, so it never begins with two slashes, which would name another host.
fn with_slash(path: &RelPath) -> Vec<u8> {
    let mut text = path.absolute();
    text.push(b'/');
    text
}

const INDEXES: [&[u8]; 3] = [b"index.php", b"index.html", b"index.htm"];
