//! The codes of replies, as the SDKs know them. A reply with a code other than 0 may still be a success.

macro_rules! codes {
    ($($name:ident = $number:literal, $message:literal;)*) => {
        /// The code of a reply. The default message explains it to people.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum ReplyCode { $($name = $number,)* }

        impl ReplyCode {
            pub(super) fn message(self) -> &'static str {
                match self { $(ReplyCode::$name => $message,)* }
            }
        }
    };
}

codes! {
    NoError = 0, "No error";
    General = 1, "The server failed to handle the request; try again";
    InvalidGame = 2, "The game's public or private key is wrong";
    TimedOut = 3, "The server is busy; try again";
    InvalidRequest = 4, "The request is not valid";
    NoName = 201, "The player's name is missing";
    NoAuthority = 202, "The board does not accept scores from this game's clients";
    NoTable = 207, "The table is missing, or it is not open to this game's clients";
    Banned = 208, "The player is banned from this game's boards";
    NotBest = 209, "The score is not the player's best";
    InvalidRating = 401, "A rating must be a whole number from 1 to 10";
    AlreadyRated = 402, "This player has rated the level already";
    NoLevelName = 403, "The level's name is missing";
    NoLevelId = 404, "The level's id is missing, or there is no such level";
    LevelExists = 405, "This player has a level of this name already";
    DataDisabled = 500, "The data API is not enabled for this game";
    NoPlayerId = 501, "The player's id is missing";
    NoPlayerName = 502, "The player's name is missing";
    NoAchievement = 503, "The achievement or its key is missing";
    InvalidAchievement = 504, "There is no such achievement, or its key does not match";
    AlreadyAchieved = 505, "The player had this achievement already";
    AchievedAgain = 506, "The player had this achievement already and keeps it";
    NewsletterDisabled = 600, "The newsletter API is disabled for this game";
}
