//! Properties of a row as JSON text.

use model::Reject;
use model::limits::PROP_STRING_BYTES_MAX;

use super::mapping::Target;
use crate::json::{is_plain_number, push_string};

/// Writes an object of the columns that are properties and not empty; writes nothing if there are none.
///
/// A value that is a JSON number, `true` or `false` is written as one. Everything else is written as a string, including
/// a number with more digits than a reader would keep.
pub(super) fn write<'a>(
    out: &mut String,
    row: impl Iterator<Item = (&'a Target, &'a [u8])>,
) -> Result<(), Reject> {
    let from = out.len();
    for (column, text) in row {
        let (Target::Prop(name), [_, ..]) = (column, text) else { continue };
        let text = str::from_utf8(text).map_err(|_| Reject::NotUtf8)?;
        out.push(if out.len() == from { '{' } else { ',' });
        push_string(out, name);
        out.push(':');
        if matches!(text, "true" | "false") || is_plain_number(text) {
            out.push_str(text);
        } else if text.len() > PROP_STRING_BYTES_MAX {
            return Err(Reject::PropStringTooLong);
        } else {
            push_string(out, text);
        }
    }
    if out.len() > from {
        out.push('}');
    }
    Ok(())
}
