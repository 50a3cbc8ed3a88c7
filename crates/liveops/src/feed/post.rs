//! Activities that a game posts itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::activity_key::{ActivityKey, digest};
use super::follows::too_many;
use super::items::NewItem;
use super::{Feed, check_name};
use crate::game::CommandContext;
use crate::{CommandResponse, Refusal, Touched, check_player, check_text, is_key};

const TEXT_BYTES_MAX: usize = 2_000;
const PROPS_MAX: usize = 32;
const PROPS_BYTES_MAX: usize = 4_000;
/// Phone clocks are often wrong: timestamps up to an hour ahead count as now.
const FUTURE_MS_MAX: i64 = 3_600_000;
/// Kinds that are reserved for activities recorded by the server.
const KINDS: [&str; 3] = ["score", "level", "achievement"];

/// An activity of the game's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewPost {
    /// The player's id.
    pub player: String,
    /// The player's display name; if empty, the known name stays.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The kind: 1 to 100 letters, digits, `.`, `_` or `-`, but none of the reserved kinds.
    pub kind: String,
    /// The text to show, 1 to 2,000 bytes.
    pub text: String,
    /// Up to 32 strings, numbers and booleans by key, up to 4,000 bytes together as JSON.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub props: BTreeMap<String, Value>,
    /// The time in milliseconds since 1970; `None` means now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<i64>,
}

/// The body of a level or a post in the blob store.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct ItemBody {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) kind: String,
    pub(super) text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) props: Option<Box<RawValue>>,
}

impl ItemBody {
    pub(super) fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts and JSON are JSON")
    }
}

#[derive(Serialize)]
struct PostResponse {
    id: String,
}

impl Feed {
    pub(super) fn post_custom(
        &mut self,
        context: &mut CommandContext<'_>,
        post: NewPost,
    ) -> Result<CommandResponse, Refusal> {
        post.check(context.at.ms)?;
        if !self.has_room_for(&post.player) {
            return Err(too_many("player", "the feed of this game cannot have more players"));
        }
        let at_ms = post.at_ms.unwrap_or(context.at.ms).min(context.at.ms);
        let body = post.body();
        let digest = digest(&body);
        let activity = ActivityKey::Post { digest: &digest };
        let id =
            self.post(NewItem { at_ms, player: &post.player, name: &post.name, activity, body: Some(body) });
        context.touched.push(Touched::Posted(post.player));
        Ok(CommandResponse::created(&PostResponse { id: id.to_string() }))
    }
}

impl NewPost {
    fn check(&self, now_ms: i64) -> Result<(), Refusal> {
        check_player("player", &self.player)?;
        check_name(&self.name)?;
        if !is_key(&self.kind) || KINDS.contains(&self.kind.as_str()) {
            let detail =
                "must have 1 to 100 letters, digits, `.`, `_` or `-`, and not be score, level or achievement";
            return Err(Refusal::invalid("kind", detail));
        }
        if self.text.is_empty() {
            return Err(Refusal::invalid("text", "must not be empty"));
        }
        check_text("text", &self.text, TEXT_BYTES_MAX)?;
        self.check_props()?;
        match self.at_ms {
            Some(at_ms) if at_ms > now_ms + FUTURE_MS_MAX => {
                Err(Refusal::invalid("at", "must not be more than an hour in the future"))
            }
            Some(at_ms) if at_ms < 0 => Err(Refusal::invalid("at", "must not be before 1970")),
            _ => Ok(()),
        }
    }

    fn check_props(&self) -> Result<(), Refusal> {
        if self.props.len() > PROPS_MAX {
            return Err(Refusal::invalid("props", format!("must have at most {PROPS_MAX} entries")));
        }
        for (key, value) in &self.props {
            if !is_key(key) {
                return Err(Refusal::invalid(
                    "props",
                    "keys must have 1 to 100 letters, digits, `.`, `_` or `-`",
                ));
            }
            if !(value.is_string() || value.is_number() || value.is_boolean()) {
                return Err(Refusal::invalid(
                    format!("props.{key}"),
                    "must be a string, a number or a boolean",
                ));
            }
        }
        if self.props_json().len() > PROPS_BYTES_MAX {
            return Err(Refusal::invalid(
                "props",
                format!("must have at most {PROPS_BYTES_MAX} bytes as JSON"),
            ));
        }
        Ok(())
    }

    fn props_json(&self) -> String {
        serde_json::to_string(&self.props).expect("values with text keys are JSON")
    }

    /// Returns the same bytes for equal posts: props are sorted by key.
    fn body(&self) -> Vec<u8> {
        let props = (!self.props.is_empty()).then(|| RawValue::from_string(self.props_json()));
        let props = props.map(|props| props.expect("it was serialized as JSON"));
        ItemBody { kind: self.kind.clone(), text: Some(self.text.clone()), props }.bytes()
    }
}
