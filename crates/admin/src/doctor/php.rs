//! Checks PHP with a script, over the socket that serves clients, since each pool has its own opcode cache and settings.
//!
//! The script exists in the temporary folder during one request, is readable by PHP's user, and is not reachable from the web. PHP
//! behind Apache cannot be checked in this way.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use galley_config::PhpAddress;
use galley_fastcgi::{FastCgiConnection, FastCgiEvent, FastCgiRequest, NoBody};
use galley_policy::cgi::Variable;
use galley_policy::extensions::{self, Missing};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::{DoctorFinding, Severity, percent};

/// The PHP to check, with its WordPress.
#[derive(Clone, Debug)]
pub struct PhpProbe {
    /// The address of PHP.
    pub address: PhpAddress,
    /// The root of the site.
    pub root: PathBuf,
    /// A host of the site.
    pub host: String,
}

/// Runs the script, and returns its report about PHP and the WordPress at its root, or the reason why there is none.
pub async fn ask(ask: &PhpProbe) -> Result<Value, String> {
    timeout(TIMEOUT, exchange(ask))
        .await
        .unwrap_or_else(|_| Err(format!("PHP did not respond within {TIMEOUT:?}")))
}

async fn exchange(ask: &PhpProbe) -> Result<Value, String> {
    let mut script = tempfile::Builder::new()
        .prefix("galley-doctor-")
        .suffix(".php")
        .permissions(std::fs::Permissions::from_mode(0o644))
        .tempfile()
        .map_err(|e| format!("cannot write a script to the temporary folder: {e}"))?;
    script
        .write_all(SCRIPT.as_bytes())
        .map_err(|e| format!("cannot write a script to the temporary folder: {e}"))?;
    let filename = script.path().as_os_str().as_encoded_bytes();
    let root = ask.root.as_os_str().as_encoded_bytes();
    let variables: Vec<Variable<'_>> = [
        ("GALLEY_DOCTOR", b"1".as_slice()),
        ("SCRIPT_FILENAME", filename),
        ("SCRIPT_NAME", b"/galley-doctor.php"),
        ("DOCUMENT_ROOT", root),
        // Page caches of WordPress do not respond to POST.
        ("REQUEST_METHOD", b"POST"),
        ("REQUEST_URI", b"/"),
        ("QUERY_STRING", b""),
        ("CONTENT_LENGTH", b"0"),
        ("SERVER_PROTOCOL", b"HTTP/1.1"),
        ("GATEWAY_INTERFACE", b"CGI/1.1"),
        ("SERVER_NAME", ask.host.as_bytes()),
        ("HTTP_HOST", ask.host.as_bytes()),
        ("REMOTE_ADDR", b"127.0.0.1"),
    ]
    .into_iter()
    .map(|(name, value)| (name.as_bytes().into(), value.into()))
    .collect();
    let output = match &ask.address {
        PhpAddress::Unix(path) => run(UnixStream::connect(path).await, &variables).await?,
        PhpAddress::Tcp(address) => run(TcpStream::connect(address).await, &variables).await?,
    };
    let text = String::from_utf8_lossy(&output);
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    serde_json::from_str(body).map_err(|_| {
        let line = text
            .lines()
            .next()
            .unwrap_or("nothing")
            .chars()
            .take(80)
            .collect::<String>();
        format!(
            "PHP responded with `{line}`; can it read the temporary folder {}?",
            std::env::temp_dir().display()
        )
    })
}

async fn run(
    stream: std::io::Result<impl AsyncRead + AsyncWrite + Unpin>,
    variables: &[Variable<'_>],
) -> Result<Vec<u8>, String> {
    let broken = |e: galley_fastcgi::Error| format!("PHP's response is incomplete: {e}");
    let stream = stream.map_err(|e| format!("cannot connect to PHP: {e}"))?;
    let mut connection = FastCgiConnection::new(stream);
    let request = FastCgiRequest {
        variables,
        body_length: 0,
    };
    connection.send(&request).await.map_err(broken)?;
    let mut output = Vec::new();
    loop {
        match connection.event(&mut NoBody).await.map_err(broken)? {
            FastCgiEvent::Stdout(bytes) if output.len() + bytes.len() <= MAX_RESPONSE => {
                output.extend_from_slice(&bytes);
            }
            FastCgiEvent::Stdout(_) => return Err("PHP's response does not end".to_owned()),
            FastCgiEvent::Stderr(_) => {}
            FastCgiEvent::End(_) => return Ok(output),
        }
    }
}

pub(super) fn findings(value: &Value) -> Vec<DoctorFinding> {
    let php = &value["php"];
    vec![opcache(&php["opcache"]), extensions_of(&php["extensions"])]
}

fn opcache(status: &Value) -> DoctorFinding {
    const CHECK: &str = "opcache";
    if status["opcache_enabled"] != true {
        return DoctorFinding::bad(
            Severity::Wrong,
            CHECK,
            "off",
            "without it PHP compiles all of WordPress for each page: three times the CPU time",
            "in php.ini of PHP-FPM: opcache.enable=1 (Debian: apt install php-opcache), then restart PHP-FPM",
        );
    }
    let number = |group: &str, name: &str| status[group][name].as_u64().unwrap_or(0);
    let (used, free) = (
        number("memory_usage", "used_memory"),
        number("memory_usage", "free_memory"),
    );
    let wasted = number("memory_usage", "wasted_memory");
    let (hits, misses) = (
        number("opcache_statistics", "hits"),
        number("opcache_statistics", "misses"),
    );
    let (keys, most) = (
        number("opcache_statistics", "num_cached_keys"),
        number("opcache_statistics", "max_cached_keys"),
    );
    let total = used + free + wasted;
    let rate = percent(hits, hits + misses);
    let seen = format!(
        "{rate} % of {} lookups hit, {} of {} used, {keys} of {most} scripts",
        hits + misses,
        super::size(used + wasted),
        super::size(total)
    );
    let (level, why, remedy) = if status["cache_full"] == true || percent(free, total) < 5 {
        (
            Severity::Wrong,
            "it is full: further scripts are compiled for each page",
            format!(
                "in php.ini: opcache.memory_consumption={}",
                (total >> 20) * 2
            ),
        )
    } else if percent(keys, most) >= 95 {
        (
            Severity::Wrong,
            "it has no room for further scripts: they are compiled for each page",
            format!("in php.ini: opcache.max_accelerated_files={}", most * 2),
        )
    } else if hits + misses > ENOUGH && rate < 80 {
        (
            Severity::Wrong,
            "scripts are evicted before they are used: a program resets it, or files change all the time",
            "look for a plugin that calls opcache_reset, and at opcache.revalidate_freq".to_owned(),
        )
    } else {
        return DoctorFinding::fine(CHECK, seen);
    };
    DoctorFinding::bad(level, CHECK, seen, why, remedy)
}

fn extensions_of(loaded: &Value) -> DoctorFinding {
    const CHECK: &str = "extensions";
    let Some(loaded) = loaded.as_array() else {
        return DoctorFinding::unknown(CHECK, "PHP does not report it");
    };
    let has = |name: &str| loaded.iter().any(|known| known.as_str() == Some(name));
    let Missing { needed, wished } = extensions::missing(has);
    let (level, names, why) = if !needed.is_empty() {
        (Severity::Wrong, needed, "WordPress does not run without it")
    } else if !wished.is_empty() {
        (
            Severity::Notice,
            wished,
            "WordPress works without it, with restrictions: no thumbnails, slower text functions, no updates from archives",
        )
    } else {
        return DoctorFinding::fine(
            CHECK,
            format!(
                "all extensions that WordPress recommends, {} in total",
                loaded.len()
            ),
        );
    };
    DoctorFinding::bad(
        level,
        CHECK,
        format!("missing: {}", names.join(", ")),
        why,
        format!(
            "apt install {}, then restart PHP-FPM",
            extensions::packages(&names)
        ),
    )
}

const SCRIPT: &str = include_str!("facts.php");

/// The number of lookups from which their hit rate is meaningful.
const ENOUGH: u64 = 20_000;

/// The timeout, including the wait for a worker.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The maximum size of the response, in bytes.
const MAX_RESPONSE: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn status(hits: u64, misses: u64, free: u64, keys: u64) -> Value {
        json!({
            "opcache_enabled": true, "cache_full": false,
            "memory_usage": { "used_memory": 100_u64 << 20, "free_memory": free << 20, "wasted_memory": 0 },
            "opcache_statistics": { "hits": hits, "misses": misses, "num_cached_keys": keys, "max_cached_keys": 100 },
        })
    }

    #[test]
    fn the_opcode_cache_is_judged() {
        for (value, level, word) in [
            (status(90_000, 1_000, 28, 50), Severity::Fine, ""),
            (status(10, 1_000, 28, 50), Severity::Fine, ""),
            (status(10_000, 20_000, 28, 50), Severity::Wrong, "resets"),
            (status(90_000, 1_000, 2, 50), Severity::Wrong, "full"),
            (status(90_000, 1_000, 28, 96), Severity::Wrong, "room"),
            (json!(null), Severity::Wrong, "compiles"),
            (
                json!({ "opcache_enabled": false }),
                Severity::Wrong,
                "compiles",
            ),
            (
                json!({ "opcache_enabled": true, "memory_usage": "x" }),
                Severity::Wrong,
                "",
            ),
        ] {
            let finding = opcache(&value);
            assert_eq!(finding.level, level, "{value}");
            assert!(finding.why.contains(word), "{}", finding.why);
        }
    }

    #[test]
    fn missing_extensions_are_reported() {
        let mut all = vec![
            "json", "mysqli", "gd", "curl", "dom", "exif", "fileinfo", "intl", "mbstring",
            "openssl", "xml", "zip",
        ];
        assert_eq!(extensions_of(&json!(all)).level, Severity::Fine);
        let finding = extensions_of(&json!(["json", "gd"]));
        assert_eq!(
            (finding.level, finding.seen.as_str()),
            (Severity::Wrong, "missing: mysqli")
        );
        assert!(finding.remedy.contains("php-mysql"));
        all.retain(|name| *name != "zip");
        assert_eq!(extensions_of(&json!(all)).level, Severity::Notice);
        assert_eq!(extensions_of(&json!(3)).level, Severity::Unknown);
    }
}
