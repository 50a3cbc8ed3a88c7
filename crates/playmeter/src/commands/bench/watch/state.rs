//! What one subscriber has seen of a number that only grows.

use memchr::memmem::FinderRev;

/// Finds the number behind a field's name in a message of JSON.
#[derive(Clone, Debug)]
pub struct Field {
    name: FinderRev<'static>,
    bytes: usize,
}

impl Field {
    /// The field of this name.
    pub fn new(name: &str) -> Field {
        let quoted = format!("\"{name}\":");
        Field { bytes: quoted.len(), name: FinderRev::new(&quoted).into_owned() }
    }

    /// The last number that the message gives.
    pub fn find(&self, message: &[u8]) -> Option<u64> {
        let digits = &message[self.name.rfind(message)? + self.bytes..];
        let end = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
        std::str::from_utf8(&digits[..end]).ok()?.parse().ok()
    }
}

/// What has been seen: everything in order, or with leaps where states were merged, or worse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The newest number, 0 before the first.
    pub newest: u64,
    /// How often it grew.
    pub grew: u64,
    /// Numbers leapt over.
    pub merged: u64,
    /// How often it came again or shrank: what must not be.
    pub disordered: u64,
}

impl Seen {
    /// Takes the next number. What was known at the beginning may be told before anything new.
    pub fn take(&mut self, number: u64) {
        if number == self.newest && self.grew == 0 {
            return;
        }
        if number <= self.newest {
            self.disordered += 1;
            return;
        }
        self.grew += 1;
        self.merged += number - self.newest - 1;
        self.newest = number;
    }

    /// Counts from this number on.
    pub fn begin_at(&mut self, number: u64) {
        *self = Seen { newest: number, ..Seen::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(message: &str, expected: Option<u64>) {
        assert_eq!(Field::new("total").find(message.as_bytes()), expected);
    }

    #[test]
    fn the_last_number_of_the_field_counts() {
        check(r#"{"fields":{"total":17,"offset":9}}"#, Some(17));
        check(r#"[{"total":17},{"total":18}]"#, Some(18));
        check(r#"{"totals":17}"#, None);
        check(r#"{"total":"17"}"#, None);
        check(r#"{"total":99999999999999999999}"#, None);
    }

    #[track_caller]
    fn check_seen(numbers: &[u64], expected: (u64, u64, u64, u64)) {
        let mut seen = Seen::default();
        numbers.iter().for_each(|number| seen.take(*number));
        assert_eq!((seen.newest, seen.grew, seen.merged, seen.disordered), expected);
    }

    #[test]
    fn leaps_repeats_and_steps_back_are_told_apart() {
        check_seen(&[1, 2, 3], (3, 3, 0, 0));
        check_seen(&[2, 5], (5, 2, 3, 0));
        check_seen(&[1, 1, 3, 2], (3, 2, 1, 2));
        check_seen(&[0, 1], (1, 1, 0, 0));
    }
}
