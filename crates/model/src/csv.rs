//! Fields of CSV.

/// Appends a text as a field of CSV. Spreadsheets would run a text that starts like a formula, so it gets an apostrophe
/// in front, unless it is a number.
pub fn push_csv_text(out: &mut Vec<u8>, text: &str) {
    let is_number = || text.parse::<f64>().is_ok_and(f64::is_finite);
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']) && !is_number();
    let quoted = text.contains([',', '"', '\r', '\n']);
    if quoted {
        out.push(b'"');
    }
    if is_formula {
        out.push(b'\'');
    }
    if !quoted {
        return out.extend_from_slice(text.as_bytes());
    }
    out.extend_from_slice(text.replace('"', "\"\"").as_bytes());
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_text_that_starts_like_a_formula_is_neutralised() {
        let check = |text: &str, expected: &str| {
            let mut out = Vec::new();
            push_csv_text(&mut out, text);
            assert_eq!(String::from_utf8(out).expect("it is text"), expected, "{text}");
        };
        check("=1+1", "'=1+1");
        check("+cmd", "'+cmd");
        check("-1+cmd|' /C calc'!A0", "'-1+cmd|' /C calc'!A0");
        check("@SUM(A1)", "'@SUM(A1)");
        check("\tx", "'\tx");
        check("=A,\"B\"", "\"'=A,\"\"B\"\"\"");
        check("-inf", "'-inf");
        // Numbers and other texts are unchanged.
        for text in ["-5", "+1.5e3", "a=b", "", "x-1", "é"] {
            check(text, text);
        }
    }
}
