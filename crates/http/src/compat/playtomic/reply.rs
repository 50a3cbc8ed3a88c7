//! The reply to a request: a code, a message and the fields of the action.

use serde_json::{Map, Value};

use liveops::Refusal;

use super::code::ReplyCode;
use crate::problem::Problem;

/// A reply, which is sent with status 200.
#[derive(Debug)]
pub(super) struct Reply {
    code: ReplyCode,
    success: bool,
    message: Option<String>,
    body: Map<String, Value>,
}

impl Reply {
    /// Returns a success with these fields.
    pub(super) fn ok(body: Map<String, Value>) -> Reply {
        Reply { code: ReplyCode::NoError, success: true, message: None, body }
    }

    /// Returns a success with a code other than 0.
    pub(super) fn ok_with(code: ReplyCode, body: Map<String, Value>) -> Reply {
        Reply { code, success: true, message: None, body }
    }

    /// Returns the error of a rejected command.
    pub(super) fn from_refusal(refusal: Refusal) -> Reply {
        let field = refusal.field.map(|field| format!("`{field}`: ")).unwrap_or_default();
        Reply::error_with(ReplyCode::InvalidRequest, &format!("{field}{}", refusal.detail))
    }

    /// Returns the error of a command that failed before it was applied.
    pub(super) fn from_problem(problem: &Problem) -> Reply {
        let code =
            if matches!(problem.status(), 429 | 503) { ReplyCode::TimedOut } else { ReplyCode::General };
        Reply::error_with(code, problem.detail())
    }

    /// Returns an error.
    pub(super) fn error(code: ReplyCode) -> Reply {
        Reply { code, success: false, message: None, body: Map::new() }
    }

    /// Returns an error with a detail after the message of its code.
    pub(super) fn error_with(code: ReplyCode, detail: &str) -> Reply {
        Reply { message: Some(format!("{}: {detail}", code.message())), ..Reply::error(code) }
    }

    /// Returns whether it is a success, the code and the fields.
    pub(super) fn into_parts(self) -> (bool, u16, Map<String, Value>) {
        (self.success, self.code as u16, self.body)
    }

    /// Returns the body of the response.
    pub(super) fn json(self) -> String {
        let Reply { code, success, message, mut body } = self;
        body.insert("success".into(), success.into());
        body.insert("errorcode".into(), (code as u16).into());
        body.insert("errormessage".into(), message.map_or_else(|| code.message().into(), Value::from));
        Value::Object(body).to_string()
    }
}
