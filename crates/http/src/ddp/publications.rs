//! What a subscription asks for: from the words of the client to a topic of the engine.

use std::collections::BTreeMap;
use std::sync::Arc;

use liveops::boards::SOURCE;
use model::batch::KeyClass;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::Credential;
use super::ejson;
use crate::AppState;
use crate::api::commands::from_json;
use crate::api::vars::who;
use crate::api::watch;
use crate::auth;
use crate::problem::Problem;
use live::documents::EncodingKey;
use live::{DeliveryOptions, MIN_INTERVAL_MS_MAX, PageTopic, ResumePoint, Topic};
use pipeline::catalog::{Access, Scope};
use pipeline::time::now_ms;

/// The name of a collection.
const COLLECTION_BYTES_MAX: usize = 128;

/// What a subscription asks for, checked.
pub(super) struct Wanted {
    pub(super) topic: Topic,
    pub(super) key: EncodingKey,
    pub(super) options: DeliveryOptions,
    pub(super) resume: Option<ResumePoint>,
    /// The scope without which it may not be seen; `None`: any key of the game will do.
    pub(super) scope: Option<Scope>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenOptions {
    collection: Option<String>,
    min_interval: Option<u32>,
    ordered: Option<bool>,
    resume: Option<WrittenResume>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenResume {
    epoch: String,
    offset: u64,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenBoard {
    table: String,
    window: Option<String>,
    per_page: Option<u32>,
    #[serde(default)]
    newest: bool,
    #[serde(default)]
    code: String,
    source: Option<String>,
    #[serde(default)]
    filter: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenFeed {
    player: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// Reads a subscription. Nobody is asked for anything before it is known that he may see it.
pub(super) fn wanted(
    shared: &AppState,
    credential: &Credential,
    access: &Access,
    name: &str,
    params: &[&RawValue],
) -> Result<Wanted, Problem> {
    let scope = scope_of(name)?;
    if let Some(scope) = scope {
        auth::allow(access.clone(), scope)?;
    }
    if params.len() > 2 {
        return Err(Problem::invalid("there are two at most: what, and options").field("params"));
    }
    let what = params.first().copied();
    let topic = match name {
        "query" => query(what, access)?,
        "board" => board(what, access)?,
        "feed" => feed(what)?,
        "vars" => vars(what, shared, credential, access)?,
        "online" => nothing(what, Topic::Online)?,
        "events" => nothing(what, Topic::Events)?,
        "flows" => nothing(what, Topic::Flows)?,
        _ => nothing(what, Topic::Load)?,
    };
    let options: WrittenOptions = read(params.get(1).copied())?;
    let collection = options.collection.as_deref().unwrap_or(name);
    if collection.is_empty() || collection.len() > COLLECTION_BYTES_MAX {
        let detail = format!("it has 1 to {COLLECTION_BYTES_MAX} bytes");
        return Err(Problem::invalid(detail).field("collection"));
    }
    let key = EncodingKey { collection: collection.into(), is_ordered: options.ordered.unwrap_or(true) };
    let resume = options.resume.map(resume).transpose()?;
    Ok(Wanted { topic, key, options: interval(options.min_interval)?, resume, scope })
}

/// What is needed to see a publication.
fn scope_of(name: &str) -> Result<Option<Scope>, Problem> {
    match name {
        "board" | "feed" | "vars" => Ok(None),
        "query" | "online" | "events" | "load" | "flows" => Ok(Some(Scope::Query)),
        _ => {
            let detail = "there are `query`, `board`, `vars`, `feed`, `online`, `events`, `load` and `flows`";
            Err(Problem::not_found(detail).field("name"))
        }
    }
}

fn interval(min_interval: Option<u32>) -> Result<DeliveryOptions, Problem> {
    match min_interval {
        None => Ok(DeliveryOptions::default()),
        Some(min_interval_ms) if min_interval_ms <= MIN_INTERVAL_MS_MAX => {
            Ok(DeliveryOptions { min_interval_ms })
        }
        Some(_) => {
            Err(Problem::invalid(format!("it is 0 to {MIN_INTERVAL_MS_MAX} milliseconds"))
                .field("min_interval"))
        }
    }
}

fn resume(written: WrittenResume) -> Result<ResumePoint, Problem> {
    let resume = ResumePoint::parse(&format!("{}.{}", written.epoch, written.offset));
    resume.ok_or_else(|| Problem::invalid("it is what `ready` said").field("resume"))
}

fn nothing(what: Option<&RawValue>, topic: Topic) -> Result<Topic, Problem> {
    if let Some(what) = what.filter(|what| what.get() != "null") {
        let _: Nothing = from_text(what.get())?;
    }
    Ok(topic)
}

fn query(what: Option<&RawValue>, access: &Access) -> Result<Topic, Problem> {
    let text = what.ok_or_else(|| Problem::invalid("say what to ask").field("params"))?.get();
    let text = ejson::plain_text(text).map_err(|error| Problem::malformed(error.to_string()))?;
    let query = pipeline::query::request::from_json(text.as_bytes(), &access.game.settings.declared());
    let query = query.map_err(Problem::from)?;
    query.plan(now_ms(), &access.game.tz).map_err(Problem::from)?;
    Ok(Topic::Query(Box::new(query)))
}

fn board(what: Option<&RawValue>, access: &Access) -> Result<Topic, Problem> {
    let WrittenBoard { table, window, per_page, newest, code, source, mut filter } = match name_of(what)? {
        Some(table) => WrittenBoard { table, ..WrittenBoard::default() },
        None => from_text(what.map_or("{}", RawValue::get))?,
    };
    if let Some(source) = source {
        filter.insert(SOURCE.to_owned(), source);
    }
    Ok(Topic::Page(Box::new(PageTopic::Board {
        table,
        window: window.as_deref().map(watch::window).transpose()?,
        per_page: per_page.map_or(Ok(0), watch::rows)?,
        newest,
        filter: filter.into_iter().collect(),
        code: (access.class == KeyClass::Public).then_some(code),
    })))
}

fn feed(what: Option<&RawValue>) -> Result<Topic, Problem> {
    let player = match name_of(what)? {
        Some(player) => player,
        None => from_text::<WrittenFeed>(what.map_or("{}", RawValue::get))?.player,
    };
    Ok(Topic::Page(Box::new(PageTopic::Feed { player, n: watch::FEED_ITEMS })))
}

fn vars(
    what: Option<&RawValue>,
    shared: &AppState,
    credential: &Credential,
    access: &Access,
) -> Result<Topic, Problem> {
    let fields: BTreeMap<String, String> = read(what)?;
    let mut parameters = who::Parameters::default();
    for (name, value) in fields {
        if !parameters.take(&name, value)? {
            let detail = "there are `player`, `country`, `platform`, `version` and `segment`";
            return Err(Problem::invalid(detail).field(name));
        }
    }
    let who = parameters.who(shared, access, &credential.headers(), credential.peer())?;
    Ok(Topic::Vars(Box::new(who)))
}

/// A parameter that is a name and nothing else.
fn name_of(what: Option<&RawValue>) -> Result<Option<String>, Problem> {
    match what {
        Some(what) if what.get().starts_with('"') => from_text(what.get()).map(Some),
        _ => Ok(None),
    }
}

fn read<T: DeserializeOwned + Default>(written: Option<&RawValue>) -> Result<T, Problem> {
    match written.map(RawValue::get) {
        None | Some("null") => Ok(T::default()),
        Some(text) => from_text(text),
    }
}

fn from_text<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    let text = ejson::plain_text(text).map_err(|error| Problem::malformed(error.to_string()))?;
    from_json(text.as_bytes())
}

/// Whether a credential may still see what it was shown.
pub(super) fn may_see(
    access: &Access,
    game: &Arc<pipeline::catalog::Game>,
    class: KeyClass,
    scope: Option<Scope>,
) -> bool {
    access.game.number == game.number && access.class == class && scope.is_none_or(|scope| access.may(scope))
}
