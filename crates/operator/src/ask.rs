//! Requests to a running server over its admin interface.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use galley_certs::file::{self, FileError};
use galley_config::{AdminListen, Diagnostics, MAX_TOKEN_FILE};
use galley_tls::one_shot::{OneShotResponse, exchange};
use http::{Request, header};
use http_body_util::Full;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use crate::admin_options::AdminOptions;
use crate::outcome::{DEFAULT_CONFIG, fail, print_diagnostics, talk};

/// The address of a running server's admin interface, and the token.
pub struct AdminAddress {
    endpoint: AdminEndpoint,
    token: Option<String>,
    /// What is invalid in the configuration file that named the address.
    wrong: Option<Arc<Diagnostics>>,
}

enum AdminEndpoint {
    Tcp(String),
    Unix(PathBuf),
}

/// The reason why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// `[admin] listen` of this configuration file is empty.
    #[error("the admin interface is off in `{0}`: set `[admin] listen`, or give --admin")]
    Off(PathBuf),
    /// This address cannot be read.
    #[error("invalid admin address `{0}`: use unix:/path or http://address:port")]
    Address(String),
    /// The file with the token cannot be read.
    #[error("the token file is `{path}`, {cause}")]
    Token {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: FileError,
    },
    /// No connection, or it ended before the response.
    #[error("cannot reach the server at {address}: {cause}; {}", unreachable_remedy(.cause))]
    Unreachable {
        /// As in the options or the configuration.
        address: String,
        /// The error of the connection.
        cause: std::io::Error,
        /// What is invalid in the configuration file that named the address.
        wrong: Option<Arc<Diagnostics>>,
    },
    /// No response within this time.
    #[error("the server did not respond within {0:?}")]
    Late(Duration),
    /// The response is not what the admin interface sends.
    #[error("cannot read the server's response: {0}")]
    Response(String),
    /// The response is no JSON: another server listens there.
    #[error(
        "the server at {address} is not the admin interface of Galley: its response, with status {status}, is no JSON; name the address of `[admin] listen`"
    )]
    NotAdmin {
        /// As in the options or the configuration.
        address: String,
        /// The status of its response.
        status: u16,
    },
    /// The server refused the request.
    #[error("refused ({status}): {error}")]
    Refused {
        /// The status of the response.
        status: u16,
        /// The reason, as the server words it.
        error: String,
    },
}

/// What may help if there is no connection.
fn unreachable_remedy(cause: &std::io::Error) -> &'static str {
    match cause.kind() {
        std::io::ErrorKind::PermissionDenied => {
            "run the command as root (`sudo`) or as the server's user"
        }
        _ => "is it running?",
    }
}

impl AdminError {
    /// Prints the error.
    pub fn report(&self) -> ExitCode {
        let code = fail(&self.to_string());
        match self {
            Self::Unreachable {
                wrong: Some(diagnostics),
                ..
            } => print_diagnostics(diagnostics),
            _ => code,
        }
    }
}

/// Finds the admin interface from the options or the configuration file that they name. An invalid file is reported: the server may
/// run with a former version of it, and only its admin interface is needed.
pub fn admin(options: &AdminOptions) -> Result<AdminAddress, AdminError> {
    let admin = admin_quietly(options)?;
    if let Some(wrong) = &admin.wrong {
        let path = config_path(options).display();
        talk(&format!(
            "`{path}` has {} error(s), which `galley check` shows; asking the running server at {}",
            wrong.len(),
            admin.address()
        ));
    }
    Ok(admin)
}

/// As [`admin`], for a command whose response reports the errors of the file.
pub fn admin_quietly(options: &AdminOptions) -> Result<AdminAddress, AdminError> {
    if let Some(text) = &options.admin {
        return with_token(options, parse(text)?, None, None);
    }
    let path = config_path(options);
    let (admin, wrong) = galley_config::load_admin(path);
    let wrong = (!wrong.is_empty()).then(|| Arc::new(wrong));
    with_token(
        options,
        endpoint(admin.listen, path)?,
        admin.token_file,
        wrong,
    )
}

fn config_path(options: &AdminOptions) -> &Path {
    let named = options.config.as_deref();
    named.unwrap_or(Path::new(DEFAULT_CONFIG))
}

fn endpoint(listen: AdminListen, path: &Path) -> Result<AdminEndpoint, AdminError> {
    match listen {
        AdminListen::Off => Err(AdminError::Off(path.to_path_buf())),
        AdminListen::Tcp(address) => Ok(AdminEndpoint::Tcp(address.to_string())),
        AdminListen::Unix(path) => Ok(AdminEndpoint::Unix(path)),
    }
}

fn with_token(
    options: &AdminOptions,
    endpoint: AdminEndpoint,
    configured_token: Option<PathBuf>,
    wrong: Option<Arc<Diagnostics>>,
) -> Result<AdminAddress, AdminError> {
    let token = options
        .token_file
        .clone()
        .or(configured_token)
        .map(|path| {
            file::read_text(&path, MAX_TOKEN_FILE)
                .map_err(|cause| AdminError::Token { path, cause })
        })
        .transpose()?
        .map(|text| text.trim().to_owned());
    Ok(AdminAddress {
        endpoint,
        token,
        wrong,
    })
}

fn parse(text: &str) -> Result<AdminEndpoint, AdminError> {
    if let Some(path) = text.strip_prefix("unix:") {
        return Ok(AdminEndpoint::Unix(path.into()));
    }
    let address = text
        .strip_prefix("http://")
        .map(|rest| rest.trim_end_matches('/'));
    match address {
        Some(address) if !address.is_empty() && !address.contains('/') => {
            Ok(AdminEndpoint::Tcp(address.to_owned()))
        }
        _ => Err(AdminError::Address(text.to_owned())),
    }
}

impl AdminAddress {
    /// The admin interface at an address, with a token.
    pub fn at(address: &str, token: &str) -> Result<Self, AdminError> {
        Ok(Self {
            endpoint: parse(address)?,
            token: Some(token.to_owned()),
            wrong: None,
        })
    }

    /// Sends a query.
    pub fn get(&self, path: &str) -> Result<Value, AdminError> {
        self.ask("GET", path, Bytes::new())
    }

    /// Sends a command.
    pub fn post(&self, path: &str, body: &Value) -> Result<Value, AdminError> {
        self.ask("POST", path, body.to_string().into())
    }

    /// Sends a command with its own time limit.
    pub fn post_within(
        &self,
        timeout: Duration,
        path: &str,
        body: &Value,
    ) -> Result<Value, AdminError> {
        self.call_within(timeout, "POST", path, body.to_string().into())
    }

    fn ask(&self, method: &str, path: &str, body: Bytes) -> Result<Value, AdminError> {
        self.call_within(TIMEOUT, method, path, body)
    }

    fn call_within(
        &self,
        timeout: Duration,
        method: &str,
        path: &str,
        body: Bytes,
    ) -> Result<Value, AdminError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|cause| self.unreachable(cause))?;
        runtime.block_on(self.exchange_within(timeout, method, path, body))
    }

    /// Like the calls above, for callers with a runtime.
    pub async fn exchange_within(
        &self,
        timeout: Duration,
        method: &str,
        path: &str,
        body: Bytes,
    ) -> Result<Value, AdminError> {
        let exchange = async {
            match &self.endpoint {
                AdminEndpoint::Tcp(address) => {
                    let stream = TcpStream::connect(address).await;
                    let stream = stream.map_err(|cause| self.unreachable(cause))?;
                    self.exchange(stream, method, path, body).await
                }
                AdminEndpoint::Unix(socket) => {
                    let stream = UnixStream::connect(socket).await;
                    let stream = stream.map_err(|cause| self.unreachable(cause))?;
                    self.exchange(stream, method, path, body).await
                }
            }
        };
        tokio::time::timeout(timeout, exchange)
            .await
            .map_err(|_| AdminError::Late(timeout))?
    }

    fn unreachable(&self, cause: std::io::Error) -> AdminError {
        AdminError::Unreachable {
            address: self.address(),
            cause,
            wrong: self.wrong.clone(),
        }
    }

    async fn exchange(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        method: &str,
        path: &str,
        body: Bytes,
    ) -> Result<Value, AdminError> {
        let unreadable = |error: &dyn std::fmt::Display| AdminError::Response(error.to_string());
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "galley")
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(Full::new(body)).map_err(|e| unreadable(&e))?;
        let response = exchange(stream, request, MAX_RESPONSE).await;
        let response = response.and_then(OneShotResponse::complete);
        let (head, bytes) = response.map_err(|e| unreadable(&e))?;
        let status = head.status;
        let value: Option<Value> = serde_json::from_slice(&bytes).ok();
        if status.is_success() {
            return value.ok_or_else(|| self.not_admin(status.as_u16()));
        }
        let (text, status) = (String::from_utf8_lossy(&bytes), status.as_u16());
        let error = value.and_then(|v| v["error"].as_str().map(str::to_owned));
        if error.is_none() && is_page(&text) {
            return Err(self.not_admin(status));
        }
        let error = error.unwrap_or_else(|| text.into_owned());
        Err(AdminError::Refused { status, error })
    }

    fn not_admin(&self, status: u16) -> AdminError {
        let address = self.address();
        AdminError::NotAdmin { address, status }
    }

    fn address(&self) -> String {
        match &self.endpoint {
            AdminEndpoint::Tcp(address) => format!("http://{address}"),
            AdminEndpoint::Unix(path) => format!("unix:{}", path.display()),
        }
    }
}

/// Whether a text is a page of a web server, not a message.
fn is_page(text: &str) -> bool {
    text.len() > MAX_MESSAGE || text.contains(['<', '\n'])
}

/// More than the longest message of a library below the admin interface, in bytes. Messages of Galley come as JSON.
const MAX_MESSAGE: usize = 300;

/// The time limit for a response.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum size of a response in bytes.
const MAX_RESPONSE: usize = 64 * 1024 * 1024;

/// Prints a response of the server, or the error.
pub fn response(result: Result<Value, AdminError>, show: impl FnOnce(&Value)) -> ExitCode {
    match result {
        Ok(value) => {
            show(&value);
            ExitCode::SUCCESS
        }
        Err(trouble) => trouble.report(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    #[test]
    fn a_user_without_permission_is_told_whom_to_become() {
        let error = |kind: ErrorKind| AdminError::Unreachable {
            address: "unix:/run/galley/admin.sock".to_owned(),
            cause: kind.into(),
            wrong: None,
        };
        let denied = error(ErrorKind::PermissionDenied).to_string();
        assert!(denied.ends_with("run the command as root (`sudo`) or as the server's user"));
        let refused = error(ErrorKind::ConnectionRefused).to_string();
        assert!(refused.ends_with("is it running?"), "{refused}");
    }
}
