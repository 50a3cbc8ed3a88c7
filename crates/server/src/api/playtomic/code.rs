//! The codes of answers. A code that is not 0 may still go with a success.

use serde_json::{Map, Value};

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
    /// It cannot be read, or asks for something that is not there.
    InvalidRequest = 4, "The request is not valid";
    /// Totals are not for this game's clients.
    DataDisabled = 500, "The data API is not enabled for this game";
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
