//! The request line of a field section: its pseudo-header fields (RFC 9114 section 4.3.1).

use super::code::{H3Code, H3Error};
use crate::h2::PseudoFields;
use crate::head::Version;
use crate::hpack::Block;

/// The pseudo-header fields of a section, for [`crate::h2::head`]. The other fields are [`crate::h2::fields_of`].
///
/// Errors: `Stream(MessageError)` if one is missing, empty, repeated, unknown, behind another field, not text, or not allowed
/// for the method. An extended CONNECT (RFC 9220) is such a request, because the settings do not offer it.
pub fn request_line(block: &Block) -> Result<PseudoFields<'_>, H3Error> {
    let malformed = H3Error::Stream(H3Code::MessageError);
    let (mut method, mut scheme, mut authority, mut path) = (None, None, None, None);
    let mut is_behind = false;
    for (name, value) in block.fields() {
        if name.first() != Some(&b':') {
            is_behind = true;
            continue;
        }
        let slot = match name {
            b":method" => &mut method,
            b":scheme" => &mut scheme,
            b":authority" => &mut authority,
            b":path" => &mut path,
            _ => return Err(malformed),
        };
        let text = std::str::from_utf8(value).map_err(|_| malformed)?;
        if is_behind || text.is_empty() || slot.replace(text).is_some() {
            return Err(malformed);
        }
    }
    let method = method.ok_or(malformed)?;
    let target = match (method, scheme, path) {
        ("CONNECT", None, None) => authority,
        ("CONNECT", ..) | (_, None, _) => None,
        (_, Some(_), path) => path,
    };
    Ok(PseudoFields {
        method,
        scheme,
        authority,
        target: target.ok_or(malformed)?,
        version: Version::H3,
    })
}
