//! The format of a page's includes in its file. The page's body contains the bytes of all parts. The page's own stale windows are
//! not in the file: as read, they are those that its includes leave.
//!
//! ```text
//! end of freshness without its includes 8 | depth 1 | 1: a part is missing because of the depth, else 0
//! an include: start 4 | end 4 | 1: optional, else 0 | 1: a second address, else 0 | lengths of the addresses: 4 each | addresses
//! a part: born 8 | ids of host and URL: 8 each | bytes of path and query, number of tag ids: 4 each | path and query | tag ids, 8 each
//! ```

use std::sync::Arc;
use std::time::Duration;

use galley_policy::esi::template::{IncludeSource, OnError};
use galley_policy::storable::Lifetime;

use super::super::layout::{Cursor, InvalidFile, milliseconds};
use crate::includes::{Assembly, IncludedPart, IncludedResponses, PageInclude};
use crate::scopes::Scopes;

/// The numbers of includes and parts in a file; zeros for a page without includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AssemblyCounts {
    pub(super) includes: u16,
    pub(super) parts: u16,
}

impl AssemblyCounts {
    /// `None`: too many for the format.
    pub(super) fn of(assembly: Option<&Assembly>) -> Option<Self> {
        let counts = |assembly: &Assembly| {
            Some(Self {
                includes: u16::try_from(assembly.includes.len()).ok()?,
                parts: u16::try_from(assembly.inclusions.parts.len()).ok()?,
            })
        };
        let none = Self {
            includes: 0,
            parts: 0,
        };
        assembly.map_or(Some(none), counts)
    }
}

/// `born` is that of the page. A part was valid at that time, even if it is older, so its number is at least the page's.
pub(super) fn write(assembly: &Assembly, born: u64, out: &mut Vec<u8>) -> Option<()> {
    let inclusions = &assembly.inclusions;
    out.extend_from_slice(&milliseconds(assembly.own.fresh).to_le_bytes());
    out.extend_from_slice(&[inclusions.depth, u8::from(inclusions.is_cut)]);
    for include in &assembly.includes {
        let source = &*include.source;
        out.extend_from_slice(&include.range.start.to_le_bytes());
        out.extend_from_slice(&include.range.end.to_le_bytes());
        out.push(u8::from(source.on_error == OnError::Continue));
        out.push(u8::from(source.alt.is_some()));
        let addresses = [&*source.src, source.alt.as_deref().unwrap_or_default()];
        for address in addresses {
            out.extend_from_slice(&length(address.len())?);
        }
        for address in addresses {
            out.extend_from_slice(address.as_bytes());
        }
    }
    for part in &*inclusions.parts {
        let scopes = &part.scopes;
        for number in [part.born.max(born), scopes.host, scopes.url] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&length(scopes.path_query.len())?);
        out.extend_from_slice(&length(scopes.tags.len())?);
        out.extend_from_slice(&scopes.path_query);
        for tag in &scopes.tags {
            out.extend_from_slice(&tag.to_le_bytes());
        }
    }
    Some(())
}

pub(super) fn read(
    counts: AssemblyCounts,
    lifetime: Lifetime,
    head: &mut Cursor<'_>,
) -> Result<Option<Arc<Assembly>>, InvalidFile> {
    if counts.includes == 0 {
        return if counts.parts == 0 {
            Ok(None)
        } else {
            Err(InvalidFile)
        };
    }
    let own = lifetime.fresh_for(Duration::from_millis(head.number()?));
    let [depth] = head.array()?;
    let is_cut = head.flag()?;
    // Nothing is reserved in advance: the bytes may not contain as many items.
    let mut includes = Vec::new();
    let mut end = 0;
    for _ in 0..counts.includes {
        let include = include(head)?;
        if include.range.start < end || include.range.end < include.range.start {
            return Err(InvalidFile);
        }
        end = include.range.end;
        includes.push(include);
    }
    let mut parts = Vec::new();
    for _ in 0..counts.parts {
        parts.push(part(head)?);
    }
    Ok(Some(Arc::new(Assembly {
        own,
        includes: includes.into(),
        inclusions: IncludedResponses {
            parts: parts.into(),
            depth,
            is_cut,
        },
    })))
}

fn include(head: &mut Cursor<'_>) -> Result<PageInclude, InvalidFile> {
    let start = u32::from_le_bytes(head.array()?);
    let end = u32::from_le_bytes(head.array()?);
    let on_error = if head.flag()? {
        OnError::Continue
    } else {
        OnError::Fail
    };
    let has_alt = head.flag()?;
    let (src, alt) = (head.count()?, head.count()?);
    let (src, alt) = (head.text(src)?.into(), head.text(alt)?.into());
    Ok(PageInclude {
        range: start..end,
        source: Arc::new(IncludeSource {
            src,
            alt: has_alt.then_some(alt),
            on_error,
        }),
    })
}

fn part(head: &mut Cursor<'_>) -> Result<IncludedPart, InvalidFile> {
    let (born, host, url) = (head.number()?, head.number()?, head.number()?);
    let (path_query, tags) = (head.count()?, head.count()?);
    Ok(IncludedPart {
        scopes: Scopes {
            host,
            url,
            path_query: head.take(path_query)?.into(),
            tags: head.numbers(tags)?,
        },
        born,
    })
}

fn length(count: usize) -> Option<[u8; 4]> {
    u32::try_from(count).ok().map(u32::to_le_bytes)
}
