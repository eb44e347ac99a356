//! The thread that reads and writes shared pages: one connection, many concurrent commands.

use std::sync::Arc;
use std::time::Duration;

use redis::cmd;
use tokio::sync::{Semaphore, mpsc};

use crate::cluster_key::{ClusterKey, MAC, PageName};
use crate::engine::Engine;
use crate::engine_link::EngineLink;
use crate::page_command::{
    FetchToken, FoundValue, LookupCommand, LookupReply, PageCommand, StoreCommand, mac_of,
};
use crate::page_counters::count;
use crate::page_value::{self, milliseconds};
use crate::secret_lock::RELEASE;
use crate::shared::ClusterState;
use crate::shared_pages::SharedPages;

/// Executes commands until all senders are dropped.
pub(crate) struct PageThread {
    worker: PageWorker,
    commands: mpsc::Receiver<PageCommand>,
    /// The maximum number of concurrent commands.
    most_commands: usize,
}

/// The state that the tasks of the thread share.
struct PageWorker {
    link: EngineLink,
    key: Arc<ClusterKey>,
    shared: Arc<ClusterState>,
    /// For the tokens that are issued.
    sender: mpsc::WeakSender<PageCommand>,
}

impl PageThread {
    pub(crate) fn new(
        engine: Engine,
        pages: &SharedPages,
        commands: mpsc::Receiver<PageCommand>,
    ) -> Self {
        Self {
            worker: PageWorker {
                link: EngineLink::new(engine),
                key: pages.key(),
                shared: pages.shared(),
                sender: pages.sender(),
            },
            commands,
            most_commands: most_commands(pages.most_value_bytes()),
        }
    }

    pub(crate) fn run(self) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        match runtime {
            Ok(runtime) => runtime.block_on(self.work()),
            Err(error) => tracing::error!(%error, "pages are not shared with other nodes"),
        }
    }

    async fn work(mut self) {
        let worker = Arc::new(self.worker);
        let connected = Arc::clone(&worker);
        let connecting = tokio::spawn(async move { connected.link.keep_connected().await });
        let in_progress = Arc::new(Semaphore::new(self.most_commands));
        while let Some(command) = self.commands.recv().await {
            let Ok(permit) = Arc::clone(&in_progress).acquire_owned().await else {
                break;
            };
            let worker = Arc::clone(&worker);
            tokio::spawn(async move {
                let _permit = permit;
                worker.execute(command).await;
            });
        }
        connecting.abort();
    }
}

impl PageWorker {
    async fn execute(&self, command: PageCommand) {
        match command {
            // The requester does not wait any more.
            PageCommand::Lookup(_, reply) if reply.is_closed() => {}
            PageCommand::Lookup(lookup, reply) => {
                if let Some(found) = self.lookup(lookup).await {
                    // A token that is not received is released.
                    drop(reply.send(found));
                }
            }
            PageCommand::Store(page) => self.store(page).await,
            PageCommand::Release(name, word) => {
                let mut command = cmd("EVAL");
                command.arg(RELEASE).arg(1);
                command.arg(self.link.key(FETCH, &name)).arg(word);
                let _: Option<i64> = self.link.query(&command).await;
            }
        }
    }

    /// The page is read outside of the script: inside one, a page of 50 KB takes the engine 70 us instead of 1 us.
    async fn lookup(&self, lookup: LookupCommand) -> Option<LookupReply> {
        let page = self.link.key(PAGE, &lookup.name);
        let mut commands = redis::pipe();
        let read = commands.cmd("GETRANGE");
        // Reads one byte more than the maximum, so that a longer value is not mistaken for a complete one.
        read.arg(&page).arg(0).arg(lookup.most_bytes);
        commands.cmd("PTTL").arg(&page);
        let take = commands.cmd("EVAL").arg(TAKE_TOKEN).arg(2);
        take.arg(&page)
            .arg(self.link.key(FETCH, &lookup.name))
            .arg(&lookup.word)
            .arg(milliseconds(TOKEN_LIFETIME))
            .arg(&lookup.refused)
            .arg(lookup.most_bytes);
        let (bytes, left_ms, has_token): (Vec<u8>, i64, i64) =
            self.link.query_pipeline(&commands).await?;
        // Released if the page existed and has expired in the meantime.
        let token = (has_token == 1).then(|| FetchToken {
            name: lookup.name.clone(),
            word: lookup.word.clone(),
            commands: self.sender.clone(),
        });
        let most = usize::try_from(lookup.most_bytes).unwrap_or(usize::MAX);
        let is_page = (MAC + 1..=most).contains(&bytes.len()) && mac_of(&bytes) != lookup.refused;
        if !is_page {
            return Some(token.map_or(LookupReply::Busy, LookupReply::Token));
        }
        let page = PageName {
            site: &lookup.site,
            key: &lookup.key,
        };
        Some(match page_value::open(&self.key, page, &bytes) {
            None => LookupReply::Foreign(mac_of(&bytes)),
            Some(value) => LookupReply::Found(FoundValue {
                value,
                // Another client may have removed the expiry: then the remaining time is 0.
                left: Duration::from_millis(u64::try_from(left_ms).unwrap_or(0)),
                bytes,
            }),
        })
    }

    async fn store(&self, page: StoreCommand) {
        let StoreCommand {
            name,
            site,
            key,
            points,
            lifetime,
            record,
            token,
            permit,
        } = page;
        let name_of_page = PageName {
            site: &site,
            key: &key,
        };
        let value = record().and_then(|record| {
            page_value::seal(&self.key, name_of_page, &points, lifetime, &record)
        });
        let is_stored = match value {
            None => false,
            Some(value) => {
                let mut command = cmd("SET");
                command.arg(self.link.key(PAGE, &name)).arg(value);
                command.arg("PX").arg(milliseconds(lifetime));
                self.link.query::<()>(&command).await.is_some()
            }
        };
        drop((token, permit));
        let counters = &self.shared.pages;
        count(if is_stored {
            &counters.stored
        } else {
            &counters.not_stored
        });
    }
}

/// Acquires the token if it is free and there is no page: no page that differs from the rejected one, is not too large, and is
/// not a mere MAC. `KEYS`: page, token. `ARGV`: the word of the token, its lifetime in milliseconds, the end of the rejected
/// page, the maximum size in bytes.
const TAKE_TOKEN: &str = "\
if ARGV[1] == '' then return 0 end
local length = redis.call('STRLEN', KEYS[1])
if length > 32 and length <= tonumber(ARGV[4]) and redis.call('GETRANGE', KEYS[1], -32, -1) ~= ARGV[3] then return 0 end
return redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0";

const PAGE: &str = "page";
const FETCH: &str = "fetch";

/// The time that a node has for fetching a page before other nodes fetch it.
const TOKEN_LIFETIME: Duration = Duration::from_secs(8);

/// The number of concurrent commands, each of which may read a value of this size.
fn most_commands(value_bytes: u64) -> usize {
    let count = MAX_READ_BYTES / value_bytes.max(1);
    usize::try_from(count)
        .unwrap_or(MAX_IN_PROGRESS)
        .clamp(4, MAX_IN_PROGRESS)
}

/// The maximum number of concurrent commands.
const MAX_IN_PROGRESS: usize = 256;

/// The memory for values that are read at a time. A program that is no node may have made each of them as long as possible.
const MAX_READ_BYTES: u64 = 32 << 20;
