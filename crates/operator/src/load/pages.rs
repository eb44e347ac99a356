//! The pages of a test: from the arguments, a sitemap, or an access log.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use galley_load::{Sitemap, VisitedPage, access_log, sitemap};

use super::fetcher::SiteFetcher;
use super::options::LoadOptions;
use super::site::TestedSite;
use crate::outcome::talk;

/// The pages that the options name.
pub(super) fn pages(
    options: &LoadOptions,
    site: &TestedSite,
    named: Vec<VisitedPage>,
    fetcher: &SiteFetcher<'_>,
) -> Result<Vec<VisitedPage>, String> {
    if let Some(path) = &options.access_log {
        return logged(path);
    }
    match &options.sitemap {
        Some(path) => mapped(path, site, fetcher),
        None => Ok(named),
    }
}

fn logged(path: &Path) -> Result<Vec<VisitedPage>, String> {
    let wrong = |error: io::Error| format!("cannot read `{}`: {error}", path.display());
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(wrong)?;
    file.take(MAX_LOG).read_to_end(&mut bytes).map_err(wrong)?;
    let text = unpacked(&bytes, MAX_LOG).map_err(wrong)?;
    let log = access_log(&String::from_utf8_lossy(&text));
    if log.skipped > 0 {
        talk(&format!(
            "load: {} requests of `{}`; left out {} lines that are no GET or HEAD requests in the combined format",
            log.pages.len(),
            path.display(),
            log.skipped
        ));
    }
    if log.pages.is_empty() {
        return Err(format!("`{}` has no GET or HEAD request", path.display()));
    }
    Ok(log.pages)
}

/// The pages of a sitemap and its nested sitemaps that belong to this site.
fn mapped(
    path: &str,
    site: &TestedSite,
    fetcher: &SiteFetcher<'_>,
) -> Result<Vec<VisitedPage>, String> {
    let first = format!("{}{path}", site.url());
    let mut waiting = VecDeque::from([site.page(&first)?]);
    let (mut pages, mut files, mut foreign) = (Vec::new(), 0, 0_u64);
    while let Some(file) = waiting.pop_front() {
        files += 1;
        let page = fetcher.get(&file.target)?;
        let text = unpacked(&page.body, MAX_SITEMAP)
            .map_err(|error| format!("cannot unpack {}{}: {error}", site.url(), file.target))?;
        let read = if page.status == 200 {
            sitemap(&String::from_utf8_lossy(&text))
        } else {
            None
        };
        let Some(read) = read else {
            return Err(format!(
                "{}{} is no sitemap (status {})",
                site.url(),
                file.target,
                page.status
            ));
        };
        match read {
            Sitemap::Pages(urls) => {
                for url in urls {
                    match site.page(&url) {
                        Ok(page) if pages.len() < MAX_PAGES => pages.push(page),
                        Ok(_) => {}
                        Err(_) => foreign += 1,
                    }
                }
            }
            Sitemap::Index(urls) => {
                let further = urls.iter().filter_map(|url| site.page(url).ok());
                waiting.extend(further.take(MAX_FILES - files.min(MAX_FILES)));
                waiting.truncate(MAX_FILES - files.min(MAX_FILES));
            }
        }
    }
    if foreign > 0 {
        talk(&format!(
            "load: left out {foreign} URLs of the sitemap that are not of {}",
            site.url()
        ));
    }
    if pages.is_empty() {
        return Err(format!("{first} lists no page of {}", site.url()));
    }
    talk(&format!(
        "load: {} pages from {files} files of the sitemap",
        pages.len()
    ));
    Ok(pages)
}

/// The bytes of a file, or the contents of a gzip file, up to `most` bytes: sitemaps with names such as `sitemap.xml.gz`, and
/// rotated logs.
fn unpacked(bytes: &[u8], most: u64) -> io::Result<Cow<'_, [u8]>> {
    if !bytes.starts_with(GZIP) {
        return Ok(Cow::Borrowed(bytes));
    }
    let mut unpacked = Vec::new();
    MultiGzDecoder::new(bytes)
        .take(most)
        .read_to_end(&mut unpacked)?;
    Ok(Cow::Owned(unpacked))
}

/// The first bytes of a gzip file (RFC 1952 section 2.3.1).
const GZIP: &[u8] = &[0x1f, 0x8b];
/// The maximum unpacked size of a sitemap file (sitemaps.org), in bytes.
const MAX_SITEMAP: u64 = 50 * 1024 * 1024;
const MAX_PAGES: usize = 200_000;
/// The maximum number of sitemap files.
const MAX_FILES: usize = 100;
/// The maximum size of an access log, in bytes.
const MAX_LOG: u64 = 1024 * 1024 * 1024;
