//! The codes of answers. A code that is not 0 may still go with a success.

use liveops::Refusal;
use serde_json::{Map, Value};

use crate::problem::Problem;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $message:literal;)*) => {
        /// What became of a request, by the numbers that SDKs know.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Code { $($(#[$doc])* $name = $number,)* }

        impl Code {
            fn message(self) -> &'static str {
                match self { $(Code::$name => $message,)* }
            }
        }
    };
}

codes! {
    /// All is well.
    NoError = 0, "No error";
    /// Something broke here.
    General = 1, "The server could not do this; try again";
    /// The key names no game, or the hash does not fit.
    InvalidGame = 2, "The game's public or private key is wrong";
    /// Too much is waiting.
    TimedOut = 3, "The server is busy; try again";
    /// It cannot be read, or asks for something that is not there.
    InvalidRequest = 4, "The request is not valid";
    /// Totals are not for this game's clients.
    DataDisabled = 500, "The data API is not enabled for this game";
    /// Nobody to save a score of.
    NoName = 201, "The player's name is missing";
    /// The board is for others.
    NoAuthority = 202, "The board does not take scores from games like this";
    /// To save to or list.
    NoTable = 207, "The table is missing, or it is not for this game's clients";
    /// By a moderator.
    Banned = 208, "The player is banned from this game's boards";
    /// So it was not saved.
    NotBest = 209, "The score is not the player's best";
    /// A number from 1 to 10.
    InvalidRating = 401, "A rating is a whole number from 1 to 10";
    /// Once and for good.
    AlreadyRated = 402, "This player has rated the level already";
    /// To save it.
    NoLevelName = 403, "The level's name is missing";
    /// To load or rate it.
    NoLevelId = 404, "The level's id is missing, or there is no such level";
    /// Of this player and name.
    LevelExists = 405, "This player has a level of this name already";
    /// Without an id nobody can be granted anything.
    NoPlayerId = 501, "The player's id is missing";
    /// Nor without a name.
    NoPlayerName = 502, "The player's name is missing";
    /// Which one.
    NoAchievement = 503, "The achievement or its key is missing";
    /// There is none of this name with this key.
    InvalidAchievement = 504, "There is no such achievement, or its key is another";
    /// The player has it.
    AchievedBefore = 505, "The player had this achievement already";
    /// The player had it, which does not matter.
    AchievedAgain = 506, "The player had this achievement already and keeps it";
    /// There is none here.
    NewsletterDisabled = 600, "The newsletter API is disabled for this game";
}

/// An answer.
#[derive(Debug)]
pub(super) struct Reply {
    code: Code,
    success: bool,
    message: Option<String>,
    body: Map<String, Value>,
}

impl Reply {
    /// A success with these fields.
    pub(super) fn ok(body: Map<String, Value>) -> Reply {
        Reply { code: Code::NoError, success: true, message: None, body }
    }

    /// A success that has a code all the same.
    pub(super) fn with(code: Code, body: Map<String, Value>) -> Reply {
        Reply { code, success: true, message: None, body }
    }

    /// What a command was refused for.
    pub(super) fn refused(refusal: Refusal) -> Reply {
        let field = refusal.field.map(|field| format!("`{field}`: ")).unwrap_or_default();
        Reply::fails_because(Code::InvalidRequest, &format!("{field}{}", refusal.detail))
    }

    /// Why a command could not be decided.
    pub(super) fn problem(problem: &Problem) -> Reply {
        let code = if matches!(problem.status(), 429 | 503) { Code::TimedOut } else { Code::General };
        Reply::fails_because(code, problem.detail())
    }

    /// A refusal.
    pub(super) fn fails(code: Code) -> Reply {
        Reply { code, success: false, message: None, body: Map::new() }
    }

    /// A refusal that says more than its code.
    pub(super) fn fails_because(code: Code, detail: &str) -> Reply {
        Reply { message: Some(format!("{}: {detail}", code.message())), ..Reply::fails(code) }
    }

    /// The body of the response.
    pub(super) fn json(self) -> String {
        let Reply { code, success, message, mut body } = self;
        body.insert("success".into(), success.into());
        body.insert("errorcode".into(), (code as u16).into());
        body.insert("errormessage".into(), message.map_or_else(|| code.message().into(), Value::from));
        Value::Object(body).to_string()
    }
}
