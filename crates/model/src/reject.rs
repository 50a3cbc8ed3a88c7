//! Outcomes of events and the reasons for rejecting them. Labels are used in metrics and API responses.

/// The outcome of one event. `received` is always the sum of the five.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Outcome {
    /// Durable and counted.
    Accepted,
    /// An event with this id was accepted before, inside the deduplication window.
    Duplicate,
    /// Breaks a rule; a retry would be rejected too.
    Invalid,
    /// Older than the game's lateness bound.
    Late,
    /// Over a quota.
    Limited,
}

impl Outcome {
    /// All outcomes, in the order used in responses.
    pub const ALL: [Outcome; 5] =
        [Outcome::Accepted, Outcome::Duplicate, Outcome::Invalid, Outcome::Late, Outcome::Limited];

    /// Returns the name of this outcome in metrics, responses and the dashboard.
    pub fn label(self) -> &'static str {
        match self {
            Outcome::Accepted => "accepted",
            Outcome::Duplicate => "duplicate",
            Outcome::Invalid => "invalid",
            Outcome::Late => "late",
            Outcome::Limited => "limited",
        }
    }
}

macro_rules! rejects {
    ($($(#[$doc:meta])* $variant:ident = $code:literal, $label:literal, $outcome:ident;)*) => {
        /// The reason why an event was not accepted: a closed set. The numbers are stored in the log and never
        /// reused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Reject { $($(#[$doc])* $variant = $code,)* }

        impl Reject {
            /// All reasons.
            pub const ALL: &'static [Reject] = &[$(Reject::$variant,)*];

            /// Returns the name of this reason in responses, metrics and the dashboard.
            pub fn label(self) -> &'static str {
                match self { $(Reject::$variant => $label,)* }
            }

            /// Returns the outcome under which this reason is counted.
            pub fn outcome(self) -> Outcome {
                match self { $(Reject::$variant => Outcome::$outcome,)* }
            }

            /// Returns the reason with this stored number.
            pub(crate) fn from_code(code: u8) -> Option<Reject> {
                match code { $($code => Some(Reject::$variant),)* _ => None }
            }
        }
    };
}

rejects! {
    /// The id was accepted before, inside the deduplication window.
    SeenBefore = 1, "seen_before", Duplicate;
    /// Older than the game's lateness bound.
    TooOld = 2, "too_old", Late;
    /// The key, player or address exceeds its rate limit.
    RateLimit = 3, "rate_limit", Limited;
    /// The game's daily quota is used up.
    DailyQuota = 4, "daily_quota", Limited;
    /// A receive queue, of the kernel or of a collector, was full.
    QueueFull = 5, "queue_full", Limited;
    /// A line of NDJSON that is not JSON.
    MalformedJson = 10, "malformed_json", Invalid;
    /// An element that is not a JSON object.
    NotAnObject = 11, "not_an_object", Invalid;
    /// A top-level field that is not one of an event's fields.
    UnknownField = 12, "unknown_field", Invalid;
    /// More than 64 KiB.
    EventTooLarge = 13, "event_too_large", Invalid;
    /// A line, row or point that does not follow its protocol.
    MalformedLine = 14, "malformed_line", Invalid;
    /// Text that is not UTF-8.
    NotUtf8 = 15, "not_utf8", Invalid;
    /// An unsupported kind of item, such as an event or a service check in StatsD.
    KindUnsupported = 16, "kind_unsupported", Invalid;
    /// A sampling rate that is not a number from 1e-9 to 1.
    SampleRateInvalid = 17, "sample_rate_invalid", Invalid;
    /// `event` is absent.
    EventNameMissing = 20, "event_name_missing", Invalid;
    /// `event` is not a string.
    EventNameNotAString = 21, "event_name_not_a_string", Invalid;
    /// `event` is the empty string.
    EventNameEmpty = 22, "event_name_empty", Invalid;
    /// `event` is longer than 200 bytes.
    EventNameTooLong = 23, "event_name_too_long", Invalid;
    /// `event` starts with `$` and is not a reserved name.
    EventNameReserved = 24, "event_name_reserved", Invalid;
    /// `id` is not a UUID.
    IdNotAUuid = 30, "id_not_a_uuid", Invalid;
    /// `ts` is neither RFC 3339 nor epoch milliseconds.
    TimestampInvalid = 31, "ts_invalid", Invalid;
    /// `player` is not a string or a whole number.
    PlayerNotAString = 32, "player_not_a_string", Invalid;
    /// `player` is longer than 128 bytes.
    PlayerTooLong = 33, "player_too_long", Invalid;
    /// `session` is not a string or a whole number.
    SessionNotAString = 34, "session_not_a_string", Invalid;
    /// `session` is longer than 128 bytes.
    SessionTooLong = 35, "session_too_long", Invalid;
    /// `value` is not a number.
    ValueNotANumber = 36, "value_not_a_number", Invalid;
    /// `value` is too large for a finite number.
    ValueNotFinite = 37, "value_not_finite", Invalid;
    /// A dimension is not a string or a whole number.
    DimensionNotAString = 40, "dimension_not_a_string", Invalid;
    /// A dimension is longer than 128 bytes.
    DimensionTooLong = 41, "dimension_too_long", Invalid;
    /// `country` is not two letters.
    CountryInvalid = 42, "country_invalid", Invalid;
    /// `props` is not an object.
    PropsNotAnObject = 50, "props_not_an_object", Invalid;
    /// `props` nests deeper than 3.
    PropsTooDeep = 51, "props_too_deep", Invalid;
    /// `props` has more than 64 keys.
    PropsTooManyKeys = 52, "props_too_many_keys", Invalid;
    /// A key of `props` is longer than 128 bytes.
    PropKeyTooLong = 53, "prop_key_too_long", Invalid;
    /// A string of `props` is longer than 1,024 bytes.
    PropStringTooLong = 54, "prop_string_too_long", Invalid;
    /// A reserved event lacks a required property, or has one of the wrong type.
    ReservedPropsInvalid = 55, "reserved_props_invalid", Invalid;
    /// The anonymous id of `$identify` already belongs to another player, or is a player's own id.
    IdentityTaken = 56, "identity_taken", Invalid;
    /// The game has reached its limit of linked ids.
    IdentitiesFull = 57, "identities_full", Limited;
    /// A collector tracks as many running totals as its memory allows.
    SeriesFull = 58, "series_full", Limited;
    /// A packet would open more flows than the game or the server may have.
    FlowsFull = 59, "flows_full", Limited;
    /// A packet of a flow does not name two different ends.
    EndsInvalid = 60, "ends_invalid", Invalid;
    /// The address of an end of a flow is not an IP address and port.
    AddressInvalid = 61, "address_invalid", Invalid;
    /// The sequence number of a packet of a flow is missing or not from 0 to 4,294,967,295.
    SeqInvalid = 62, "seq_invalid", Invalid;
    /// `bye` of a packet of a flow is neither true nor false.
    ByeInvalid = 63, "bye_invalid", Invalid;
}

impl Reject {
    /// Returns the number under which the log stores this reason.
    pub fn code(self) -> u8 {
        self as u8
    }
}
