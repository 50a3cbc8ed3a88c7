//! `POST /v3/api.aspx` of SDK 2: the calls of the API with other names. The SDK for browsers reads JSON; that of Flash,
//! which reads XML, has no player any more.

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, USER_AGENT};
use hyper::http::request::Parts;
use hyper::{Method, Request, StatusCode};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use decode::playtomic::{V3Call, parse_v3_form};
use pipeline::time::now_ms;

use super::code::ReplyCode;
use super::reply::Reply;
use super::request::PlaytomicRequest;
use super::tracker::authorize;
use crate::RuntimeState;
use crate::api::events::header_text;
use crate::body::{self, BodyLimits};
use crate::cors::{allow_any_origin, preflight};
use crate::problem::Problem;
use crate::request_context::RequestContext;

/// The largest form: it contains a level.
const FORM_BYTES_MAX: usize = 2 << 20;

/// Handles `/v3/api.aspx` and `/KEY/v3/api.aspx`.
pub(super) async fn v3_api(State(runtime): State<RuntimeState>, request: Request<Body>) -> Response {
    let (head, mut incoming) = request.into_parts();
    let mut response = match head.method {
        Method::OPTIONS => preflight("POST, OPTIONS"),
        Method::POST => match handle_form(&runtime, &head, &mut incoming).await {
            Ok(json) => respond(json),
            Err(problem) => {
                runtime.shared.rejected_requests.count(&problem);
                body::discard(&head.headers, incoming, &problem);
                respond(reply_json(None, Reply::error_with(ReplyCode::InvalidRequest, problem.detail())))
            }
        },
        _ => Problem::method_not_allowed("use POST").into_response(),
    };
    allow_any_origin(response.headers_mut());
    response
}

fn respond(json: Value) -> Response {
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    (StatusCode::OK, headers, json.to_string()).into_response()
}

async fn handle_form(runtime: &RuntimeState, head: &Parts, incoming: &mut Body) -> Result<Value, Problem> {
    let limits = BodyLimits { bytes: FORM_BYTES_MAX, inflated_bytes: FORM_BYTES_MAX };
    let bytes = body::read(head, incoming, limits).await?;
    let Ok(access) = authorize(runtime, head) else {
        return Ok(reply_json(None, Reply::error(ReplyCode::InvalidGame)));
    };
    let form = match parse_v3_form(&bytes) {
        Ok(form) => form,
        Err(error) => {
            return Ok(reply_json(None, Reply::error_with(ReplyCode::InvalidRequest, &error.to_string())));
        }
    };
    let Some(call) = form.call(&runtime.shared.catalog.playtomic_private_key(&access.game)) else {
        return Ok(reply_json(None, Reply::error(ReplyCode::InvalidGame)));
    };
    let context = RequestContext::from(head);
    context.set_game(access.game.number);
    let request = PlaytomicRequest {
        runtime,
        access,
        address: context.client_address(),
        user_agent: header_text(&head.headers, USER_AGENT),
        received_ms: now_ms(),
    };
    let reply = request.dispatch(call.section, call.action, call.parameters.clone()).await;
    Ok(reply_json(Some(&call), reply.unwrap_or_else(|reply| reply)))
}

/// Returns a reply in the names of SDK 2.
fn reply_json(call: Option<&V3Call>, reply: Reply) -> Value {
    let (success, code, body) = reply.into_parts();
    let data = match call.map(|call| (call.section, call.action)) {
        Some(("gamevars", _)) => vars(&body),
        Some(("geoip", _)) => json!({ "Code": body.get("code"), "Name": body.get("name") }),
        // The SDK reads the list even if the request failed.
        Some(("leaderboards", _)) => scores(&body),
        Some(("playerlevels", "save")) => {
            json!({ "LevelId": body.get("level").map(|level| &level["levelid"]) })
        }
        Some(("playerlevels", "load")) => body.get("level").map_or_else(|| json!({}), level),
        Some(("playerlevels", "list")) => {
            json!({ "Levels": rows(&body, "levels").iter().map(level).collect::<Value>(), "NumLevels": body.get("numlevels") })
        }
        Some(("data", _)) => totals(&body),
        _ => json!({}),
    };
    json!({ "Status": u8::from(success), "ErrorCode": code, "Data": data })
}

fn rows<'a>(body: &'a Map<String, Value>, name: &str) -> &'a [Value] {
    body.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn vars(body: &Map<String, Value>) -> Value {
    let vars = body.get("gamevars").and_then(Value::as_object).into_iter().flatten();
    vars.map(|(name, var)| (name.clone(), var["value"].clone())).collect()
}

fn scores(body: &Map<String, Value>) -> Value {
    let score = |row: &Value| {
        let custom = row["fields"].as_object().into_iter().flatten();
        json!({
            "Name": escaped(&row["playername"]),
            "FBUserId": row.get("playerid").cloned().unwrap_or_default(),
            "Points": row["points"],
            "Website": row["source"],
            "SDate": date(&row["date"]),
            "RDate": row["rdate"],
            "Rank": row["rank"],
            "SubmittedOrBest": (row["submitted"] == true).to_string(),
            "CustomData": custom.map(|(name, value)| (name.clone(), escaped(value))).collect::<Value>(),
        })
    };
    let total = body.get("numscores").cloned().unwrap_or_else(|| 0.into());
    json!({ "Scores": rows(body, "scores").iter().map(score).collect::<Value>(), "NumScores": total })
}

fn level(row: &Value) -> Value {
    let mut level = json!({
        "LevelId": row["levelid"],
        "PlayerId": row.get("playerid").cloned().unwrap_or_else(|| "".into()),
        "PlayerName": row["playername"],
        "PlayerSource": row.get("source").cloned().unwrap_or_else(|| "".into()),
        "Name": row["name"],
        "Score": row["score"],
        "Votes": row["votes"],
        "Plays": row["plays"],
        "Rating": row["rating"],
        "SDate": date(&row["date"]),
        "RDate": row["rdate"],
        "CustomData": row.get("fields").cloned().unwrap_or_else(|| json!({})),
    });
    if let Some(data) = row.get("data") {
        level["Data"] = data.clone();
    }
    level
}

fn totals(body: &Map<String, Value>) -> Value {
    if let Some(Value::Array(values)) = body.get("value") {
        let value = |row: &Value| json!({ "TrackValue": row["trackvalue"], "Value": row["value"] });
        return json!({ "Values": values.iter().map(value).collect::<Value>() });
    }
    let names =
        [("value", "Value"), ("min", "Min"), ("max", "Max"), ("average", "Average"), ("total", "Total")];
    let found = names.iter().filter_map(|(name, to)| Some(((*to).to_owned(), body.get(*name)?.clone())));
    found.collect()
}

/// Escapes a text that the SDK unescapes.
fn escaped(text: &Value) -> String {
    text.as_str().unwrap_or_default().replace('%', "%25")
}

/// Formats a time in seconds as `MM/DD/YYYY`.
fn date(seconds: &Value) -> String {
    let time = Timestamp::from_second(seconds.as_i64().unwrap_or_default()).unwrap_or_default();
    time.strftime("%m/%d/%Y").to_string()
}
