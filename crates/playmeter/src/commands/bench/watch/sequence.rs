//! A number that only grows, as received by one subscriber.

use memchr::memmem::FinderRev;

/// Finds the number of a field in a JSON message.
#[derive(Clone, Debug)]
pub(crate) struct NumberField {
    name: FinderRev<'static>,
    bytes: usize,
}

impl NumberField {
    pub(crate) fn new(name: &str) -> NumberField {
        let quoted = format!("\"{name}\":");
        NumberField { bytes: quoted.len(), name: FinderRev::new(&quoted).into_owned() }
    }

    /// Returns the last number of this field in the message.
    pub(crate) fn find(&self, message: &[u8]) -> Option<u64> {
        let digits = &message[self.name.rfind(message)? + self.bytes..];
        let end = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
        std::str::from_utf8(&digits[..end]).ok()?.parse().ok()
    }
}

/// The received numbers: increases, gaps by merged states, and errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SequenceState {
    /// The newest number; 0 before the first.
    pub(crate) newest: u64,
    /// Number of increases.
    pub(crate) increases: u64,
    /// Skipped numbers.
    pub(crate) merged: u64,
    /// Number of repetitions and decreases, which are errors.
    pub(crate) disordered: u64,
}

impl SequenceState {
    /// Adds the next number. The number at the start may be repeated before the first increase.
    pub(crate) fn add(&mut self, number: u64) {
        if number == self.newest && self.increases == 0 {
            return;
        }
        if number <= self.newest {
            self.disordered += 1;
            return;
        }
        self.increases += 1;
        self.merged += number - self.newest - 1;
        self.newest = number;
    }

    /// Resets the counts and starts with this number.
    pub(crate) fn start_at(&mut self, number: u64) {
        *self = SequenceState { newest: number, ..SequenceState::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(message: &str, expected: Option<u64>) {
        assert_eq!(NumberField::new("total").find(message.as_bytes()), expected);
    }

    #[test]
    fn last_number_of_the_field_is_found() {
        check(r#"{"fields":{"total":17,"offset":9}}"#, Some(17));
        check(r#"[{"total":17},{"total":18}]"#, Some(18));
        check(r#"{"totals":17}"#, None);
        check(r#"{"total":"17"}"#, None);
        check(r#"{"total":99999999999999999999}"#, None);
    }

    #[track_caller]
    fn check_state(numbers: &[u64], expected: (u64, u64, u64, u64)) {
        let mut state = SequenceState::default();
        numbers.iter().for_each(|number| state.add(*number));
        assert_eq!((state.newest, state.increases, state.merged, state.disordered), expected);
    }

    #[test]
    fn gaps_repeats_and_decreases_are_counted() {
        check_state(&[1, 2, 3], (3, 3, 0, 0));
        check_state(&[2, 5], (5, 2, 3, 0));
        check_state(&[1, 1, 3, 2], (3, 2, 1, 2));
        check_state(&[0, 1], (1, 1, 0, 0));
    }
}
