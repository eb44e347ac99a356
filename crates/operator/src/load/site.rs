//! The target: scheme, host and port of the URLs, and the single address that receives all requests.

use std::net::{SocketAddr, ToSocketAddrs};

use galley_load::{PageMethod, VisitedPage};
use http::Uri;

/// The site under test. The name is resolved once, so that the permitted address is the one that gets the load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TestedSite {
    pub(super) is_tls: bool,
    /// The host in lower case, without the brackets of an IPv6 address.
    pub(super) host: String,
    pub(super) addr: SocketAddr,
    /// Whether the address is not that of the host.
    pub(super) is_elsewhere: bool,
    /// The value of the `Host` field.
    pub(super) authority: String,
}

impl TestedSite {
    /// The site of the first URL, and the pages of all URLs, which must belong to one site. `address`: the address to connect to
    /// instead of the host's own.
    pub(super) fn of(
        urls: &[String],
        address: Option<SocketAddr>,
    ) -> Result<(Self, Vec<VisitedPage>), String> {
        let mut urls = urls.iter();
        let first = urls.next().ok_or("name a URL")?;
        let (site, page) = Self::parse(first, address)?;
        let mut pages = vec![page];
        for url in urls {
            pages.push(site.page(url)?);
        }
        Ok((site, pages))
    }

    fn parse(text: &str, address: Option<SocketAddr>) -> Result<(Self, VisitedPage), String> {
        let invalid = || format!("invalid URL `{text}`: write it as `http://example.com/page/`");
        let uri: Uri = text.parse().map_err(|_| invalid())?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(invalid()),
        };
        let authority = uri.authority().ok_or_else(invalid)?;
        if authority.as_str().contains('@') {
            return Err(invalid());
        }
        let host = uri.host().ok_or_else(invalid)?.to_ascii_lowercase();
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let addr = match address {
            Some(address) => address,
            None => resolved(&host, port)?,
        };
        let target = uri.path_and_query().map_or("/", |target| target.as_str());
        let page = VisitedPage::new(PageMethod::Get, target).ok_or_else(invalid)?;
        let authority = authority.as_str().to_ascii_lowercase();
        let site = Self {
            is_tls,
            host,
            addr,
            is_elsewhere: address.is_some(),
            authority,
        };
        Ok((site, page))
    }

    /// The page of a URL of this site.
    pub(super) fn page(&self, url: &str) -> Result<VisitedPage, String> {
        let invalid = || format!("`{url}` is not a URL of {}", self.url());
        let uri: Uri = url.parse().map_err(|_| invalid())?;
        let is_tls = uri.scheme_str() == Some("https");
        let authority = uri.authority().map(|it| it.as_str().to_ascii_lowercase());
        if is_tls != self.is_tls || authority.as_ref() != Some(&self.authority) {
            return Err(invalid());
        }
        let target = uri.path_and_query().map_or("/", |target| target.as_str());
        VisitedPage::new(PageMethod::Get, target).ok_or_else(invalid)
    }

    /// Scheme and authority.
    pub(super) fn url(&self) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        format!("{scheme}://{}", self.authority)
    }
}

fn resolved(host: &str, port: u16) -> Result<SocketAddr, String> {
    let mut addresses = (host, port)
        .to_socket_addrs()
        .map_err(|error| format!("cannot resolve `{host}`: {error}"))?;
    addresses
        .next()
        .ok_or_else(|| format!("`{host}` has no address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(urls: &[&str]) -> Result<(TestedSite, Vec<VisitedPage>), String> {
        let urls: Vec<String> = urls.iter().map(|url| (*url).to_owned()).collect();
        TestedSite::of(&urls, None)
    }

    #[test]
    fn urls_of_other_sites_are_rejected() {
        let (site, pages) = of(&["http://127.0.0.1:8080/a?b=c", "http://127.0.0.1:8080"]).unwrap();
        assert_eq!(site.url(), "http://127.0.0.1:8080");
        assert_eq!(site.addr, "127.0.0.1:8080".parse().unwrap());
        let targets: Vec<&str> = pages.iter().map(|page| &*page.target).collect();
        assert_eq!(targets, ["/a?b=c", "/"]);
        assert_eq!(
            of(&["https://[::1]/"]).unwrap().0.addr,
            "[::1]:443".parse().unwrap()
        );
        let address = "127.0.0.2:81".parse().unwrap();
        let (site, _) =
            TestedSite::of(&["https://example.test".to_owned()], Some(address)).unwrap();
        assert_eq!((site.addr, site.is_elsewhere), (address, true));
        for urls in [
            &["127.0.0.1"][..],
            &["ftp://127.0.0.1/"],
            &["http://user@127.0.0.1/"],
            &["http:///a"],
            &["http://127.0.0.1/", "http://127.0.0.2/"],
            &["http://127.0.0.1/", "https://127.0.0.1/"],
            &[],
        ] {
            assert!(of(urls).is_err(), "{urls:?}");
        }
    }
}
