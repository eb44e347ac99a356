//! The account at an ACME directory: created with the first certificate, then read from its file.
//!
//! It is opened for each order, because the directory's addresses may have changed within two months; that costs one request.
//! Only one task at a time opens it, so that many sites create only one account.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use galley_certs::file;
use galley_cluster::EngineUnavailable;
use galley_config::{AcmeConfig as Settings, MAX_TOKEN_FILE};
use instant_acme::{Account, AccountCredentials, ExternalAccountKey, NewAccount};
use rustls::ClientConfig;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use super::http::{self, AcmeClient, ResponseNotes};
use super::problem::OrderError;
use super::sharing::Sharing;
use super::store::{self, Store};
use galley_sys::Lock;
use galley_sys::clock::Clock;

/// Opens the account of one directory.
pub(super) struct AccountOpener {
    pub(super) settings: Settings,
    store: Arc<Store>,
    tls: Arc<ClientConfig>,
    /// The key id and MAC key for external account binding (RFC 8555 section 7.3.4).
    binding: Option<(String, Vec<u8>)>,
    clock: Clock,
    /// Permits one task at a time to open the account: two would create two accounts.
    opening: Semaphore,
    /// The secrets shared with other nodes; `None`: this node has a separate account.
    sharing: Option<Arc<Sharing>>,
    /// The id of an account that the directory did not know.
    forgotten: Lock<Option<String>>,
}

/// The opened account, for one attempt.
pub(super) struct OpenedAccount {
    pub(super) account: Account,
    notes: Arc<ResponseNotes>,
}

impl OpenedAccount {
    /// Adds the directory's `Retry-After` to an error.
    pub(super) fn trouble(&self, trouble: OrderError) -> OrderError {
        trouble.with(self.notes.retry_after())
    }
}

#[derive(Serialize, Deserialize)]
struct StoredAccount {
    /// The contact that the directory has: `mailto:` and an address.
    contact: Option<String>,
    account: AccountCredentials,
}

impl AccountOpener {
    /// Errors: `ca` or the file with the binding key cannot be read.
    pub(super) fn new(
        settings: Settings,
        store: Arc<Store>,
        sharing: Option<Arc<Sharing>>,
        clock: Clock,
    ) -> io::Result<Self> {
        let binding = settings.binding.as_ref().map(|(id, file)| {
            let failed = |why: String| io::Error::other(format!("`{}`: {why}", file.display()));
            let text = file::read_text(file, MAX_TOKEN_FILE).map_err(|e| failed(e.to_string()))?;
            let text = text.trim().trim_end_matches('=');
            let key = BASE64_URL_SAFE_NO_PAD.decode(text);
            let key = key.map_err(|e| failed(e.to_string()))?;
            Ok::<_, io::Error>((id.clone(), key))
        });
        Ok(Self {
            tls: http::trust(settings.ca.as_deref())?,
            binding: binding.transpose()?,
            settings,
            store,
            clock,
            opening: Semaphore::new(1),
            sharing,
            forgotten: Lock::default(),
        })
    }

    /// Opens the account, or registers one if none exists.
    pub(super) async fn open(&self) -> Result<OpenedAccount, OrderError> {
        let _turn = self.opening.acquire().await.map_err(OrderError::new)?;
        let notes = Arc::new(ResponseNotes::default());
        let opened = match self.known().await {
            Some(stored) => self.enter(stored, &notes).await,
            None => self.register_once(&notes).await,
        };
        let account = opened.map_err(|trouble| trouble.with(notes.retry_after()))?;
        Ok(OpenedAccount { account, notes })
    }

    /// Opens the account, if one exists.
    pub(super) async fn open_existing(&self) -> Option<Result<OpenedAccount, OrderError>> {
        self.known().await?;
        Some(self.open().await)
    }

    /// Sets aside an account that the directory does not know, unless it was replaced already.
    pub(super) async fn forget(&self, id: &str) {
        let Ok(_turn) = self.opening.acquire().await else {
            return;
        };
        // The shared account of the nodes may still be this one.
        *self.forgotten.lock() = Some(id.to_owned());
        let (place, id) = (self.store.account(), id.to_owned());
        let forgotten = spawn_blocking(move || {
            let text = store::read(&place).ok().flatten()?;
            (id_of(&text)? == id).then(|| store::set_aside(&place))
        });
        if let Ok(Some(Ok(()))) = forgotten.await {
            tracing::warn!("the directory does not know the account: registering a new one");
        }
    }

    async fn enter(
        &self,
        stored: StoredAccount,
        notes: &Arc<ResponseNotes>,
    ) -> Result<Account, OrderError> {
        let StoredAccount { contact, account } = stored;
        let account = Account::builder_with_http(Box::new(self.client(notes)))
            .from_credentials(account)
            .await?;
        if contact != self.contact() {
            self.update_contact(&account).await;
        }
        Ok(account)
    }

    /// Sends the operator's new address to the directory. A failure does not prevent a certificate.
    async fn update_contact(&self, account: &Account) {
        let contact = self.contact();
        let list: Vec<&str> = contact.as_deref().into_iter().collect();
        if let Err(error) = account.update_contacts(&list).await {
            let trouble = OrderError::from(error);
            tracing::warn!("cannot send `acme.email` to the directory: {trouble}");
            return;
        }
        let place = self.store.account();
        let written = spawn_blocking(move || {
            let text = store::read(&place)?.unwrap_or_default();
            let mut stored: StoredAccount = serde_json::from_str(&text)?;
            stored.contact = contact;
            store::write(&place, &serde_json::to_string_pretty(&stored)?)
        });
        if let Ok(Err(error)) = written.await {
            tracing::error!(%error, "cannot store the account");
        }
    }

    /// Registers an account, unless another node is registering one: then its account is used.
    async fn register_once(&self, notes: &Arc<ResponseNotes>) -> Result<Account, OrderError> {
        let Some(sharing) = &self.sharing else {
            return self.register(notes).await;
        };
        let until = Instant::now() + MAX_REGISTRATION;
        loop {
            match sharing.take_account_turn().await {
                Ok(Some(turn)) => {
                    let opened = match self.known().await {
                        Some(stored) => self.enter(stored, notes).await,
                        None => turn.during(self.register(notes)).await,
                    };
                    turn.release().await;
                    return opened;
                }
                Ok(None) if Instant::now() < until => sleep(RETRY_INTERVAL).await,
                Ok(None) | Err(EngineUnavailable) => return self.register(notes).await,
            }
            if let Some(stored) = self.known().await {
                return self.enter(stored, notes).await;
            }
        }
    }

    /// Registers an account. Using a directory means agreeing to its terms of service; the manual says so for `tls = "auto"`.
    async fn register(&self, notes: &Arc<ResponseNotes>) -> Result<Account, OrderError> {
        let contact = self.contact();
        let list: Vec<&str> = contact.as_deref().into_iter().collect();
        let binding = self.binding.as_ref();
        let binding = binding.map(|(id, key)| ExternalAccountKey::new(id.clone(), key));
        let wanted = NewAccount {
            contact: &list,
            terms_of_service_agreed: true,
            only_return_existing: false,
        };
        let (account, credentials) = Account::builder_with_http(Box::new(self.client(notes)))
            .create(&wanted, self.settings.directory.clone(), binding.as_ref())
            .await?;
        let stored = StoredAccount {
            contact,
            account: credentials,
        };
        let text = serde_json::to_string_pretty(&stored).map_err(OrderError::new)?;
        if let Some(sharing) = &self.sharing {
            sharing.store_account(&text).await;
        }
        let place = self.store.account();
        let written = spawn_blocking(move || store::write(&place, &text)).await;
        // Without the file, each later order would register another account.
        written
            .map_err(OrderError::new)?
            .map_err(|error| OrderError::new(format!("cannot store the account: {error}")))?;
        tracing::info!(
            directory = self.settings.directory,
            "registered an account with the directory and accepted its terms of service"
        );
        Ok(account)
    }

    /// The account from the file, or otherwise from another node.
    async fn known(&self) -> Option<StoredAccount> {
        let Some(stored) = self.stored().await else {
            return self.take_over().await;
        };
        if let Some(sharing) = &self.sharing
            && let Ok(None) = sharing.account().await
            && let Ok(text) = serde_json::to_string_pretty(&stored)
        {
            sharing.store_account(&text).await;
        }
        Some(stored)
    }

    /// The account of another node, which is then written to the file.
    async fn take_over(&self) -> Option<StoredAccount> {
        let text = self.sharing.as_ref()?.account().await.ok()??;
        let stored = parse(&text, &self.settings.directory).ok()?;
        if *self.forgotten.lock() == id_of(&text) {
            return None;
        }
        let place = self.store.account();
        let written = spawn_blocking(move || store::write(&place, &text)).await;
        if let Ok(Err(error)) = written {
            tracing::error!(%error, "cannot store the account");
        }
        Some(stored)
    }

    /// The account from the file. A file that cannot be used is set aside, and a new account is registered.
    async fn stored(&self) -> Option<StoredAccount> {
        let place = self.store.account();
        let directory = self.settings.directory.clone();
        let found = spawn_blocking(move || {
            let broken = match read(&place, &directory) {
                Ok(found) => return found,
                Err(why) => why,
            };
            let aside = store::set_aside(&place);
            tracing::error!(
                file = %place.display(), is_set_aside = aside.is_ok(),
                "cannot read the account: {broken}; registering a new one"
            );
            None
        });
        found.await.ok().flatten()
    }

    fn contact(&self) -> Option<String> {
        let email = self.settings.email.as_ref();
        email.map(|email| format!("mailto:{email}"))
    }

    fn client(&self, notes: &Arc<ResponseNotes>) -> AcmeClient {
        AcmeClient {
            tls: Arc::clone(&self.tls),
            notes: Arc::clone(notes),
            clock: self.clock,
        }
    }
}

fn read(place: &std::path::Path, directory: &str) -> Result<Option<StoredAccount>, String> {
    let Some(text) = store::read(place).map_err(|e| e.to_string())? else {
        return Ok(None);
    };
    parse(&text, directory).map(Some)
}

/// The id of an account at the directory.
fn id_of(text: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    value["account"]["id"].as_str().map(str::to_owned)
}

fn parse(text: &str, directory: &str) -> Result<StoredAccount, String> {
    let value: serde_json::Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
    if value["account"]["directory"] != directory {
        return Err("it belongs to another directory".to_owned());
    }
    serde_json::from_value(value).map_err(|e| e.to_string())
}

/// The maximum time that a node waits while another one registers.
const MAX_REGISTRATION: Duration = Duration::from_secs(40);
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_accounts_and_those_of_other_directories_are_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("account.json");
        assert!(matches!(read(&place, "https://a.test/dir"), Ok(None)));
        let account = r#"{"contact": null, "account": {"id": "https://a.test/1", "key_pkcs8": "AAAA", "directory": "https://a.test/dir"}}"#;
        for (text, is_good) in [
            (account, true),
            (&account.replace("/dir\"", "/other\""), false),
            (&account.replace("AAAA", "!"), false),
            (&account[..40], false),
            ("", false),
            ("[]", false),
            ("\u{0}", false),
        ] {
            store::write(&place, text).unwrap();
            let found = read(&place, "https://a.test/dir");
            assert_eq!(matches!(found, Ok(Some(_))), is_good, "{text}");
        }
    }
}
