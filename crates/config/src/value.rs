//! A parsed value, and its conversion to a Rust type.
//!
//! The option table defines the variant of each option's value. Requesting another type is a mistake in this crate, not in
//! a file, and the test that assembles all defaults finds it.

use std::path::PathBuf;
use std::time::Duration;

use galley_certs::CertificateFiles;
use galley_policy::access::{AccessSetting, CountryCode, RateLimit};
use galley_policy::crawlers::CrawlerRule;
use galley_policy::headers::{FieldName, HeaderField};
use galley_policy::pattern::PathPattern;
use galley_policy::route::HostPattern;
use galley_policy::send_file::InternalFolder;
use galley_policy::site::NamePattern;
use ipnet::IpNet;

use crate::diagnostic::SourceSpan;
use crate::forward::PurgeForward;
use crate::listen::{AdminListen, Listen, Proxy};
use crate::log::LogTarget;
use crate::log_field::LogField;
use crate::quantity::RunInterval;
use crate::upstream::{HttpUpstream, UpstreamConfig, UpstreamTls};

/// A value of some kind.
#[derive(Clone, Debug)]
pub(crate) enum ConfigValue {
    Flag(bool),
    /// A count, or a size in bytes.
    Number(u64),
    Time(Duration),
    Pace(RunInterval),
    /// A word, a text, a URL path or a glob.
    Text(String),
    /// An absolute path.
    Path(PathBuf),
    Listen(Listen),
    Admin(AdminListen),
    Php(UpstreamConfig),
    Url(HttpUpstream),
    Host(HostPattern),
    Network(IpNet),
    Country(CountryCode),
    Proxy(Proxy),
    Name(NamePattern),
    Log(LogTarget),
    Certificates(Vec<(SourceSpan, CertificateFiles)>),
    UpstreamTls(UpstreamTls),
    Forward(PurgeForward),
    Internal(InternalFolder),
    Pattern(PathPattern),
    FieldName(FieldName),
    FieldLine(HeaderField),
    LogField(LogField),
    File(AccessSetting<PathBuf>),
    Limit(AccessSetting<RateLimit>),
    CrawlerLists(Vec<(String, PathBuf)>),
    CrawlerRules(Vec<CrawlerRule>),
    /// The valid members; there are diagnostics about the others.
    List(Vec<(SourceSpan, ConfigValue)>),
}

/// A Rust type to which values can be converted.
pub(crate) trait FromValue: Sized {
    /// `None` if the value has another variant.
    fn from_value(value: &ConfigValue) -> Option<Self>;
}

macro_rules! from_value {
    ($($variant:ident => $type:ty),* $(,)?) => {$(
        impl FromValue for $type {
            fn from_value(value: &ConfigValue) -> Option<Self> {
                match value {
                    ConfigValue::$variant(inner) => Some(inner.clone()),
                    _ => None,
                }
            }
        }
    )*};
}

from_value! {
    Flag => bool,
    Number => u64,
    Time => Duration,
    Pace => RunInterval,
    Text => String,
    Path => PathBuf,
    Listen => Listen,
    Proxy => Proxy,
    Admin => AdminListen,
    Php => UpstreamConfig,
    Url => HttpUpstream,
    Host => HostPattern,
    Network => IpNet,
    Country => CountryCode,
    Name => NamePattern,
    Log => LogTarget,
    UpstreamTls => UpstreamTls,
    Forward => PurgeForward,
    Internal => InternalFolder,
    Pattern => PathPattern,
    FieldName => FieldName,
    FieldLine => HeaderField,
    LogField => LogField,
    File => AccessSetting<PathBuf>,
    Limit => AccessSetting<RateLimit>,
    CrawlerLists => Vec<(String, PathBuf)>,
    CrawlerRules => Vec<CrawlerRule>,
    Certificates => Vec<(SourceSpan, CertificateFiles)>,
}

impl FromValue for usize {
    fn from_value(value: &ConfigValue) -> Option<Self> {
        match value {
            ConfigValue::Number(number) => usize::try_from(*number).ok(),
            _ => None,
        }
    }
}

impl<T: FromValue> FromValue for Vec<T> {
    fn from_value(value: &ConfigValue) -> Option<Self> {
        match value {
            ConfigValue::List(members) => members
                .iter()
                .map(|(_, member)| T::from_value(member))
                .collect(),
            _ => None,
        }
    }
}

/// A list with the position of each member, for checks that report one of them.
impl<T: FromValue> FromValue for Vec<(SourceSpan, T)> {
    fn from_value(value: &ConfigValue) -> Option<Self> {
        match value {
            ConfigValue::List(members) => members
                .iter()
                .map(|(position, member)| Some((position.clone(), T::from_value(member)?)))
                .collect(),
            _ => None,
        }
    }
}
