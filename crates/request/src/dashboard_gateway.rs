//! The channel between front threads, which receive the requests for dashboards of sites, and the thread that answers them.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use galley_policy::outcome::RefusedWhy;
use http::HeaderMap;

use galley_access::Passwords;

/// The dashboard of a site.
pub struct SiteDashboard {
    /// Its path, with a slash at both ends.
    pub path: String,
    /// Who may see it.
    pub passwords: Arc<Passwords>,
}

/// A request for the dashboard of a site.
pub struct DashboardRequest {
    /// The row in the counters of the site whose dashboard it is.
    pub row: u32,
    /// As sent.
    pub method: String,
    /// Decoded, from the root.
    pub path: String,
    /// As sent.
    pub query: Option<String>,
    /// Those of its fields that matter.
    pub fields: HeaderMap,
    /// The whole body.
    pub body: Bytes,
    /// The client.
    pub client: IpAddr,
    /// The origin of the site's pages, as this client sees them.
    pub origin: String,
}

/// What the dashboard answers.
pub struct DashboardResponse {
    /// Final status.
    pub status: u16,
    /// All fields but those of framing.
    pub fields: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// Why it is a refusal, in the words of the log.
    pub refused: Option<RefusedWhy>,
}

/// A pending answer; `None`: nobody answers any longer.
pub type DashboardFuture = Pin<Box<dyn Future<Output = Option<DashboardResponse>> + Send>>;

/// The side that answers for dashboards.
pub trait DashboardHost: Send + Sync {
    /// Answers one request.
    fn respond(&self, request: DashboardRequest) -> DashboardFuture;
}

/// Where dashboards are answered: nowhere before [`DashboardGateway::open`] and after [`DashboardGateway::close`]. One for the process.
#[derive(Default)]
pub struct DashboardGateway(ArcSwapOption<OpenGateway>);

struct OpenGateway(Box<dyn DashboardHost>);

impl DashboardGateway {
    /// What the host answers, if there is one.
    pub async fn respond(&self, request: DashboardRequest) -> Option<DashboardResponse> {
        let open = self.0.load_full()?;
        open.0.respond(request).await
    }

    /// From now on `host` answers.
    pub fn open(&self, host: impl DashboardHost + 'static) {
        self.0.store(Some(Arc::new(OpenGateway(Box::new(host)))));
    }

    /// Nobody answers any more.
    pub fn close(&self) {
        self.0.store(None);
    }
}
