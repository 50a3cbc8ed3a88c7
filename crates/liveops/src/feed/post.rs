//! What a game posts by itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::deed::{Deed, digest};
use super::follows::too_many;
use super::items::Post;
use super::{Feed, check_name};
use crate::game::Context;
use crate::{Answer, Refusal, Touched, check_player, check_text, is_key};

const TEXT_BYTES_MAX: usize = 2_000;
const PROPS_MAX: usize = 32;
const PROPS_BYTES_MAX: usize = 4_000;
/// Phones have wrong clocks: an hour ahead is believed to mean now.
const FUTURE_MS_MAX: i64 = 3_600_000;
/// The kinds that say what the server saw.
const KINDS: [&str; 3] = ["score", "level", "achievement"];

/// An item of the game's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewPost {
    /// Whose item it is.
    pub player: String,
    /// The player's name; empty: as it is known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// What it is to the game, 1 to 100 letters, digits, `.`, `_` or `-`, but none of the server's kinds.
    pub kind: String,
    /// For people, 1 to 2,000 bytes.
    pub text: String,
    /// Up to 32 texts, numbers and booleans by key, as JSON up to 4,000 bytes together.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub props: BTreeMap<String, Value>,
    /// When it happened, milliseconds since 1970; `None`: now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<i64>,
}

/// What stands on disk beside a level or a post.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Body {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) kind: String,
    pub(super) text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) props: Option<Box<RawValue>>,
}

impl Body {
    pub(super) fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts and JSON are JSON")
    }
}

#[derive(Serialize)]
struct Posted {
    id: String,
}

impl Feed {
    pub(super) fn post_own(&mut self, context: &mut Context<'_>, post: NewPost) -> Result<Answer, Refusal> {
        post.check(context.at.ms)?;
        if !self.has_room_for(&post.player) {
            return Err(too_many("player", "this game has as many players as it can"));
        }
        let at_ms = post.at_ms.unwrap_or(context.at.ms).min(context.at.ms);
        let body = post.body();
        let digest = digest(&body);
        let deed = Deed::Post { digest: &digest };
        let id = self.post(Post { at_ms, player: &post.player, name: &post.name, deed, body: Some(body) });
        context.touched.push(Touched::Posted(post.player));
        Ok(Answer::created(&Posted { id: id.to_string() }))
    }
}

impl NewPost {
    fn check(&self, now_ms: i64) -> Result<(), Refusal> {
        check_player("player", &self.player)?;
        check_name(&self.name)?;
        if !is_key(&self.kind) || KINDS.contains(&self.kind.as_str()) {
            let detail =
                "it has 1 to 100 letters, digits, `.`, `_` or `-`, and is not score, level or achievement";
            return Err(Refusal::invalid("kind", detail));
        }
        if self.text.is_empty() {
            return Err(Refusal::invalid("text", "it is empty"));
        }
        check_text("text", &self.text, TEXT_BYTES_MAX)?;
        self.check_props()?;
        match self.at_ms {
            Some(at_ms) if at_ms > now_ms + FUTURE_MS_MAX => {
                Err(Refusal::invalid("at", "it is more than an hour ahead"))
            }
            Some(at_ms) if at_ms < 0 => Err(Refusal::invalid("at", "it is before 1970")),
            _ => Ok(()),
        }
    }

    fn check_props(&self) -> Result<(), Refusal> {
        if self.props.len() > PROPS_MAX {
            return Err(Refusal::invalid("props", format!("there are at most {PROPS_MAX}")));
        }
        for (key, value) in &self.props {
            if !is_key(key) {
                return Err(Refusal::invalid("props", "a key has 1 to 100 letters, digits, `.`, `_` or `-`"));
            }
            if !(value.is_string() || value.is_number() || value.is_boolean()) {
                return Err(Refusal::invalid(format!("props.{key}"), "it is a text, a number or a boolean"));
            }
        }
        if self.props_json().len() > PROPS_BYTES_MAX {
            return Err(Refusal::invalid(
                "props",
                format!("they have at most {PROPS_BYTES_MAX} bytes as JSON"),
            ));
        }
        Ok(())
    }

    fn props_json(&self) -> String {
        serde_json::to_string(&self.props).expect("values with text keys are JSON")
    }

    /// The same bytes for equal posts: the props are in the order of their keys.
    fn body(&self) -> Vec<u8> {
        let props = (!self.props.is_empty()).then(|| RawValue::from_string(self.props_json()));
        let props = props.map(|props| props.expect("it was made as JSON"));
        Body { kind: self.kind.clone(), text: Some(self.text.clone()), props }.bytes()
    }
}
