//! The object cache of all sites: one thread, which outlives generations.
//!
//! A reload changes its sites. Before another process takes over, the thread ends: two stores for one database would not see each other's
//! changes. The new one begins empty.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use galley_config::{AdminListen, Config};
use galley_object_cache::{Figures, ObjectCache, ObjectCacheSite};
use galley_request::Site;

/// The object cache, and the counters of its sites, which survive reloads.
#[derive(Default)]
pub(super) struct ObjectCaches {
    running: Option<ObjectCache>,
    figures: HashMap<String, Arc<Figures>>,
}

impl ObjectCaches {
    /// Starts the thread, ends it, or changes its sites. A socket that cannot be opened is no reason not to serve pages.
    pub(super) fn configure(&mut self, config: &Config, sites: &[Arc<Site>]) {
        let wanted = self.sites(config, sites);
        let socket = socket(&config.admin.listen).filter(|_| !wanted.is_empty());
        let Some(socket) = socket else {
            self.end();
            return;
        };
        match &self.running {
            Some(running) if running.socket() == socket => running.configure(wanted),
            _ => {
                self.end();
                self.running = start(&socket, wanted);
            }
        }
    }

    /// Closes all connections and drops all values.
    pub(super) fn end(&mut self) {
        if let Some(running) = self.running.take() {
            running.end();
        }
    }

    /// The counters by site.
    pub(super) fn figures(&self) -> HashMap<String, Arc<Figures>> {
        let is_running = self.running.is_some();
        let figures = self.figures.iter().filter(|_| is_running);
        figures
            .map(|(name, figures)| (name.clone(), Arc::clone(figures)))
            .collect()
    }

    fn sites(&mut self, config: &Config, sites: &[Arc<Site>]) -> Vec<ObjectCacheSite> {
        let all = config.sites.iter().zip(sites);
        let wanted = all.filter_map(|(options, site)| {
            let limit = options.object_cache?;
            Some(ObjectCacheSite {
                name: options.name.clone(),
                token: site.token.clone()?,
                limit: usize::try_from(limit).unwrap_or(usize::MAX),
                figures: Arc::clone(self.figures.entry(options.name.clone()).or_default()),
            })
        });
        let wanted: Vec<_> = wanted.collect();
        self.figures
            .retain(|name, _| wanted.iter().any(|site| site.name == *name));
        wanted
    }
}

fn start(socket: &Path, sites: Vec<ObjectCacheSite>) -> Option<ObjectCache> {
    match ObjectCache::start(socket, sites) {
        Ok(running) => Some(running),
        Err(error) => {
            tracing::error!(
                %error,
                "the object cache cannot listen on `{}`: WordPress works without it; remove what is there, or permit this user to create it, and reload",
                socket.display()
            );
            None
        }
    }
}

/// The socket beside that of the admin interface, which users without a token may reach, too.
fn socket(listen: &AdminListen) -> Option<PathBuf> {
    match listen {
        AdminListen::Unix(path) => Some(path.with_file_name("objects.sock")),
        AdminListen::Tcp(_) | AdminListen::Off => None,
    }
}
