//! The fragments of a page in its file.
//!
//! ```text
//! start 4 | end 4 | born 8 | id 8 | digest 16 | 1: rendered alone, else 0
//! | lengths of label, definition and kinds of blocks, numbers of tag ids, of tag ids when rendered alone, of exceptions: 4 each
//! | label | definition | blocks | tag ids, 8 each | tag ids when it was rendered alone, 8 each | exceptions, 8 each
//! ```

use std::borrow::Cow;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use galley_policy::key::tag_id;
use galley_policy::tags::{EVERYTHING, MAX_TAGS};

use super::super::layout::{Cursor, InvalidFile};
use crate::fragments::{FragmentVersion, PageFragment};

pub(super) fn write(fragments: &[PageFragment], out: &mut Vec<u8>) -> Option<()> {
    for fragment in fragments {
        let version = &*fragment.version;
        let tags = page_tags(fragment);
        let rendered = version.rendered_tags.get();
        out.extend_from_slice(&fragment.range.start.to_le_bytes());
        out.extend_from_slice(&fragment.range.end.to_le_bytes());
        out.extend_from_slice(&fragment.born.to_le_bytes());
        out.extend_from_slice(&version.id.to_le_bytes());
        out.extend_from_slice(&version.digest.to_le_bytes());
        out.push(u8::from(rendered.is_some()));
        let rendered = rendered.map_or(&[][..], |tags| tags);
        let texts = [&version.label, &version.definition, &version.blocks];
        let lengths = texts.iter().map(|text| text.len());
        for count in lengths.chain([tags.len(), rendered.len(), fragment.except.len()]) {
            out.extend_from_slice(&u32::try_from(count).ok()?.to_le_bytes());
        }
        for text in texts {
            out.extend_from_slice(text.as_bytes());
        }
        for tag in tags.iter().chain(rendered).chain(&*fragment.except) {
            out.extend_from_slice(&tag.to_le_bytes());
        }
    }
    Some(())
}

/// The tags of the fragment in its page. In a file, those of the generated page are not separate.
fn page_tags(fragment: &PageFragment) -> Cow<'_, [u64]> {
    let (own, generated) = (&fragment.version.tags, &fragment.generated_tags);
    if generated.is_empty() {
        return Cow::Borrowed(own);
    }
    let mut tags = [&**own, &**generated].concat();
    tags.sort_unstable();
    tags.dedup();
    if tags.len() > MAX_TAGS {
        // They grow with each patch of a page that is read again.
        tags = vec![tag_id(EVERYTHING)];
    }
    Cow::Owned(tags)
}

pub(super) fn read(count: usize, head: &mut Cursor<'_>) -> Result<Vec<PageFragment>, InvalidFile> {
    // Nothing is reserved in advance: the bytes may not contain as many fragments.
    let mut fragments = Vec::new();
    let mut end = 0;
    for _ in 0..count {
        let fragment = one(head)?;
        let range = &fragment.range;
        if range.start < end || range.end < range.start {
            return Err(InvalidFile);
        }
        end = range.end;
        fragments.push(fragment);
    }
    Ok(fragments)
}

fn one(head: &mut Cursor<'_>) -> Result<PageFragment, InvalidFile> {
    let start = u32::from_le_bytes(head.array()?);
    let end = u32::from_le_bytes(head.array()?);
    let born = head.number()?;
    let id = head.number()?;
    let digest = u128::from_le_bytes(head.array()?);
    let is_shared = head.flag()?;
    let (label, definition, blocks) = (head.count()?, head.count()?, head.count()?);
    let (tags, rendered, except) = (head.count()?, head.count()?, head.count()?);
    let mut text = |length: usize| head.text(length).map(Box::from);
    let (label, definition, blocks) = (text(label)?, text(definition)?, text(blocks)?);
    let tags = head.numbers(tags)?.into();
    let rendered = head.numbers(rendered)?;
    let except = Arc::from(head.numbers(except)?);
    let rendered_tags = OnceLock::new();
    if is_shared {
        let _ = rendered_tags.set(rendered);
    }
    Ok(PageFragment {
        range: start..end,
        version: Arc::new(FragmentVersion {
            id,
            label,
            definition,
            blocks,
            tags,
            digest,
            rendered_tags,
            is_switched_off: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            held: OnceLock::new(),
        }),
        generated_tags: Arc::default(),
        born,
        except,
    })
}
