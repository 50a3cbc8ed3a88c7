//! A place between two events.

use std::fmt;
use std::str::FromStr;

use crate::builder::Day;

/// The format of the text.
const FORMAT: &str = "1";

/// A place in the order of a game's events: in front of the event with this day, player, time and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventCursor {
    pub(super) day: Day,
    /// The hash of the player.
    pub(super) player: u64,
    pub(super) time: i64,
    /// The number among the events of that player and time, in the order of the log.
    pub(super) index: u64,
}

/// A text that is no cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a cursor that an earlier page has returned")]
pub struct InvalidCursor;

impl EventCursor {
    pub(super) fn start_of(day: Day) -> EventCursor {
        EventCursor { day, player: 0, time: i64::MIN, index: 0 }
    }
}

impl fmt::Display for EventCursor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EventCursor { day, player, time, index } = self;
        write!(out, "{FORMAT}.{day}.{player:016x}.{time}.{index}")
    }
}

impl FromStr for EventCursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<EventCursor, InvalidCursor> {
        let parts: Vec<&str> = text.split('.').collect();
        let [FORMAT, day, player, time, index] = parts[..] else { return Err(InvalidCursor) };
        let number = |text: &str| text.parse::<i64>().map_err(|_| InvalidCursor);
        Ok(EventCursor {
            day: day.parse().map_err(|_| InvalidCursor)?,
            player: u64::from_str_radix(player, 16).map_err(|_| InvalidCursor)?,
            time: number(time)?,
            index: index.parse().map_err(|_| InvalidCursor)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_cursor_gives_the_same_cursor() {
        for cursor in [
            EventCursor::start_of(20_758),
            EventCursor { day: -3, player: u64::MAX, time: -1, index: u64::MAX },
        ] {
            assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }
        for wrong in ["", "1", "1.2.3", "2.1.0.0.0", "1.1.0.0.-1", "1.1.x.0.0", "1.1.0.0.0.0", "é.1.0.0.0"] {
            assert_eq!(wrong.parse::<EventCursor>(), Err(InvalidCursor), "{wrong}");
        }
    }
}
