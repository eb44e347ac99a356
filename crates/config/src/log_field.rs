//! The fields that an access line may have, by their names in the configuration.

use galley_policy::headers::{self, FieldName};

use crate::reader::{Problem, problem};

/// A field of an access line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogField {
    /// A known field; null if it does not apply to a request.
    Known(KnownField),
    /// A header field of the request.
    RequestHeader(FieldName),
    /// A header field of the response.
    ResponseHeader(FieldName),
}

macro_rules! known_fields {
    ($($variant:ident $name:literal $text:literal)+) => {
        /// A field that is not a header field.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum KnownField {
            $(#[doc = $text] $variant,)+
        }

        impl KnownField {
            /// All known fields.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The name in the configuration, and in JSON.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

known_fields! {
    Client "client" "The client's address."
    Method "method" "The method."
    Target "target" "Path and query as the client sent them."
    Version "version" "The version of HTTP."
    Host "host" "The host of the request."
    Status "status" "The status of the response."
    BodyBytes "body_bytes" "Bytes of the response body."
    Referer "referer" "The field `Referer`."
    UserAgent "user_agent" "The field `User-Agent`."
    Outcome "outcome" "What Galley did with the request."
    Detail "detail" "Why."
    UpstreamTime "upstream_time" "Seconds until the head of the upstream's response."
    TotalTime "total_time" "Seconds until the end of the response."
    Id "id" "The id of the request."
    Vanished "vanished" "Whether the client did not take its whole response."
    TlsVersion "tls_version" "The version of TLS."
    Country "country" "The country of the client."
    TraceId "trace_id" "The trace in a valid `traceparent` of the request."
}

impl LogField {
    /// The field with the name `text`.
    pub(crate) fn parse(text: &str) -> Result<Self, Problem> {
        let field = KnownField::ALL.iter().find(|field| field.name() == text);
        if let Some(field) = field {
            return Ok(Self::Known(*field));
        }
        let header = |name: &str, field: fn(FieldName) -> Self| match headers::parse_name(name) {
            Some(name) if SECRET.contains(&name.as_str()) => problem(
                "which contains secrets, so Galley never logs it",
                "remove it from the list",
            ),
            Some(name) => Ok(field(name)),
            None => problem(
                "which does not end with the name of a header field",
                "write the name behind the colon: `request_header:accept-language`",
            ),
        };
        match text.split_once(':') {
            Some(("request_header", name)) => header(name, Self::RequestHeader),
            Some(("response_header", name)) => header(name, Self::ResponseHeader),
            _ => problem("which is no field of access lines", Self::help()),
        }
    }

    /// The fields that may be logged.
    pub(crate) fn help() -> String {
        let names = KnownField::ALL.iter().map(|field| field.name());
        let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
        format!(
            "use {}, `request_header:NAME` or `response_header:NAME`",
            names.join(", ")
        )
    }
}

/// Header fields whose values would let others impersonate the client, or identify a person.
const SECRET: &[&str] = &[
    "authorization",
    "cookie",
    "fastly-key",
    "proxy-authorization",
    "set-cookie",
    "x-api-key",
    "x-auth-token",
    "x-csrf-token",
    "x-purge-secret",
    "x-vc-purge-key",
    "x-wp-nonce",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_secrets_are_rejected() {
        for field in KnownField::ALL {
            assert_eq!(
                LogField::parse(field.name()).ok(),
                Some(LogField::Known(*field))
            );
        }
        let header = LogField::parse("request_header:Accept-Language").ok();
        let name = FieldName::from_static("accept-language");
        assert_eq!(header, Some(LogField::RequestHeader(name)));
        let header = LogField::parse("response_header:x-cache").ok();
        let name = FieldName::from_static("x-cache");
        assert_eq!(header, Some(LogField::ResponseHeader(name)));
        for wrong in [
            "",
            "Status",
            "request_header:",
            "request_header:a b",
            "header:accept",
            "request_header:Cookie",
            "request_header:authorization",
            "response_header:Set-Cookie",
        ] {
            assert!(LogField::parse(wrong).is_err(), "{wrong}");
        }
    }
}
