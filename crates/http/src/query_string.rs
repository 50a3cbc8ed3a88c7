//! Query strings of URLs.

use crate::problem::Problem;

/// Returns the decoded names and values of a URL's query string, in order.
///
/// # Errors
///
/// A [`Problem`] that names the pair if must be percent-encoded UTF-8.
pub fn pairs(query: &str) -> Result<Vec<(String, String)>, Problem> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name =
                decode(name).ok_or_else(|| Problem::invalid("must be percent-encoded UTF-8").field(name))?;
            let value = decode(value)
                .ok_or_else(|| Problem::invalid("must be percent-encoded UTF-8").field(&name))?;
            Ok((name, value))
        })
        .collect()
}

/// Reads a parameter that is true or false.
///
/// # Errors
///
/// A [`Problem`] without a field if it is neither.
pub fn flag(value: &str) -> Result<bool, Problem> {
    match value {
        "0" | "false" => Ok(false),
        "1" | "true" => Ok(true),
        _ => Err(Problem::invalid("must be true or false")),
    }
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        match first {
            b'+' => bytes.push(b' '),
            b'%' => {
                let (digits, tail) = rest.split_at_checked(2)?;
                let digits = std::str::from_utf8(digits).ok()?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
                rest = tail;
            }
            byte => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_string_is_decoded() {
        let pairs = pairs("query=%7B%22a%22%3A+1%7D&online=1").unwrap();
        assert_eq!(pairs, [("query".into(), r#"{"a": 1}"#.into()), ("online".to_owned(), "1".to_owned())]);
    }

    #[test]
    fn invalid_percent_encoding_is_rejected() {
        for query in ["a=%", "a=%4", "a=%zz", "a=%ff"] {
            assert_eq!(super::pairs(query).unwrap_err().status(), 400, "{query}");
        }
    }
}
