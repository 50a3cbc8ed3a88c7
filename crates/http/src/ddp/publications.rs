//! Parses subscriptions: from the name and parameters of a publication to a topic of the `live` crate.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use live::documents::EncodingKey;
use live::{DeliveryOptions, MIN_INTERVAL_MS_MAX, PageTopic, ResumePoint, Topic};
use liveops::boards::SOURCE;
use model::batch::KeyClass;
use pipeline::catalog::{Access, Game, Scope};
use pipeline::time::now_ms;

use super::Credential;
use super::ejson;
use crate::AppState;
use crate::api::json::from_json;
use crate::api::vars::viewer;
use crate::api::watch;
use crate::auth;
use crate::problem::Problem;

/// The longest name of a collection.
const COLLECTION_BYTES_MAX: usize = 128;

/// A validated subscription.
pub(super) struct SubscriptionRequest {
    pub(super) topic: Topic,
    pub(super) key: EncodingKey,
    pub(super) options: DeliveryOptions,
    pub(super) resume: Option<ResumePoint>,
    /// The scope that the topic requires; `None` if any key of the game is enough.
    pub(super) scope: Option<Scope>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SubscriptionOptions {
    collection: Option<String>,
    min_interval: Option<u32>,
    ordered: Option<bool>,
    resume: Option<ResumePosition>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResumePosition {
    epoch: String,
    offset: u64,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct BoardTopicParams {
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
struct FeedTopicParams {
    player: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoTopicParams {}

/// Parses and validates a subscription. The scope is checked first.
pub(super) fn parse_subscription(
    shared: &AppState,
    credential: &Credential,
    access: &Access,
    name: &str,
    params: &[&RawValue],
) -> Result<SubscriptionRequest, Problem> {
    let scope = scope_of(name)?;
    if let Some(scope) = scope {
        auth::allow(access.clone(), scope)?;
    }
    if params.len() > 2 {
        return Err(Problem::invalid("at most two are allowed: topic parameters and options").field("params"));
    }
    let param = params.first().copied();
    let topic = match name {
        "query" => query(param, access)?,
        "board" => board(param, access)?,
        "feed" => feed(param)?,
        "vars" => vars(param, shared, credential, access)?,
        "online" => without_params(param, Topic::Online)?,
        "events" => without_params(param, Topic::Events)?,
        "flows" => without_params(param, Topic::Flows)?,
        "alerts" => without_params(param, Topic::Alerts)?,
        _ => without_params(param, Topic::Load)?,
    };
    let options: SubscriptionOptions = read(params.get(1).copied())?;
    let collection = options.collection.as_deref().unwrap_or(name);
    if collection.is_empty() || collection.len() > COLLECTION_BYTES_MAX {
        let detail = format!("must have between 1 and {COLLECTION_BYTES_MAX} bytes");
        return Err(Problem::invalid(detail).field("collection"));
    }
    let key = EncodingKey { collection: collection.into(), is_ordered: options.ordered.unwrap_or(true) };
    let resume = options.resume.map(resume).transpose()?;
    Ok(SubscriptionRequest { topic, key, options: interval(options.min_interval)?, resume, scope })
}

/// Returns the scope that a publication requires, or `None` if any key of the game is enough.
fn scope_of(name: &str) -> Result<Option<Scope>, Problem> {
    match name {
        "board" | "feed" | "vars" => Ok(None),
        "query" | "online" | "events" | "load" | "flows" | "alerts" => Ok(Some(Scope::Query)),
        _ => {
            let detail = "no such publication: use `query`, `board`, `vars`, `feed`, `online`, `events`, `load`, `flows` or `alerts`";
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
        Some(_) => Err(Problem::invalid(format!("must be between 0 and {MIN_INTERVAL_MS_MAX} milliseconds"))
            .field("min_interval")),
    }
}

fn resume(params: ResumePosition) -> Result<ResumePoint, Problem> {
    let resume = ResumePoint::parse(&format!("{}.{}", params.epoch, params.offset));
    resume.ok_or_else(|| {
        Problem::invalid("must be the `epoch` and `offset` of a `ready` or data message").field("resume")
    })
}

fn without_params(param: Option<&RawValue>, topic: Topic) -> Result<Topic, Problem> {
    if let Some(param) = param.filter(|param| param.get() != "null") {
        let _: NoTopicParams = from_text(param.get())?;
    }
    Ok(topic)
}

fn query(param: Option<&RawValue>, access: &Access) -> Result<Topic, Problem> {
    let text =
        param.ok_or_else(|| Problem::invalid("the first parameter must be a query").field("params"))?.get();
    let text = ejson::plain_text(text).map_err(|error| Problem::malformed(error.to_string()))?;
    let query = pipeline::query::request::from_json(text.as_bytes(), &access.game.settings.declared());
    let query = query.map_err(Problem::from)?;
    query.plan(now_ms(), &access.game.tz).map_err(Problem::from)?;
    Ok(Topic::Query(Box::new(query)))
}

fn board(param: Option<&RawValue>, access: &Access) -> Result<Topic, Problem> {
    let BoardTopicParams { table, window, per_page, newest, code, source, mut filter } = match name_of(param)?
    {
        Some(table) => BoardTopicParams { table, ..BoardTopicParams::default() },
        None => from_text(param.map_or("{}", RawValue::get))?,
    };
    if let Some(source) = source {
        filter.insert(SOURCE.to_owned(), source);
    }
    Ok(Topic::Page(Box::new(PageTopic::Board {
        table,
        window: window.as_deref().map(watch::parse_window).transpose()?,
        per_page: per_page.map_or(Ok(0), watch::check_rows)?,
        newest,
        filter: filter.into_iter().collect(),
        code: (access.class == KeyClass::Public).then_some(code),
    })))
}

fn feed(param: Option<&RawValue>) -> Result<Topic, Problem> {
    let player = match name_of(param)? {
        Some(player) => player,
        None => from_text::<FeedTopicParams>(param.map_or("{}", RawValue::get))?.player,
    };
    Ok(Topic::Page(Box::new(PageTopic::Feed { player, n: watch::FEED_ITEMS })))
}

fn vars(
    param: Option<&RawValue>,
    shared: &AppState,
    credential: &Credential,
    access: &Access,
) -> Result<Topic, Problem> {
    let fields: BTreeMap<String, String> = read(param)?;
    let mut parameters = viewer::ViewerParams::default();
    for (name, value) in fields {
        if !parameters.set(&name, value)? {
            let detail = "unknown field: use `player`, `country`, `platform`, `version` or `segment`";
            return Err(Problem::invalid(detail).field(name));
        }
    }
    let who = parameters.viewer(shared, access, &credential.credentials())?;
    Ok(Topic::Vars(Box::new(who)))
}

/// Returns the parameter if it is a string: the name alone.
fn name_of(param: Option<&RawValue>) -> Result<Option<String>, Problem> {
    match param {
        Some(param) if param.get().starts_with('"') => from_text(param.get()).map(Some),
        _ => Ok(None),
    }
}

fn read<T: DeserializeOwned + Default>(param: Option<&RawValue>) -> Result<T, Problem> {
    match param.map(RawValue::get) {
        None | Some("null") => Ok(T::default()),
        Some(text) => from_text(text),
    }
}

fn from_text<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    let text = ejson::plain_text(text).map_err(|error| Problem::malformed(error.to_string()))?;
    from_json(text.as_bytes())
}

/// Returns true if the credential has access to a topic that was opened with this game, class and scope. A secret key may
/// see what a public key has opened; the reverse is not true, because some topics show more to a secret key.
pub(super) fn may_access(access: &Access, game: &Game, class: KeyClass, scope: Option<Scope>) -> bool {
    let is_same_or_better = access.class == class || access.class == KeyClass::Secret;
    access.game.number == game.number && is_same_or_better && scope.is_none_or(|scope| access.may(scope))
}
