//! Query parameters of level lists and of the moderation queue.

use liveops::levels::{LevelMode, LevelQuery, LevelViewer};
use pipeline::time::parse_time;

use crate::api::boards::params::PAGE_MAX;
use crate::problem::Problem;
use crate::query_string::flag;

/// Levels per page.
const PER_PAGE_MAX: u64 = 1_000;
/// Friends that one request may name.
const FRIENDS_MAX: usize = 1_000;
/// As many as a level can have fields.
const FILTERS_MAX: usize = 20;
/// Prefix of the player whose follows count as friends.
const FOLLOWS: &str = "follows:";

/// The query parameters of a level list.
pub(crate) struct LevelListParams {
    pub(crate) list: LevelQuery,
    /// Restricts the list to levels by the players that this player follows.
    pub(crate) followed_by: Option<String>,
}

impl LevelListParams {
    pub(crate) fn read(query: &str, viewer: LevelViewer) -> Result<LevelListParams, Problem> {
        let mut params = LevelListParams {
            list: LevelQuery { viewer, ..LevelQuery::of(LevelMode::Popular) },
            followed_by: None,
        };
        for (name, value) in crate::query_string::pairs(query)? {
            params.set(&name, value).map_err(|problem| problem.field(name))?;
        }
        Ok(params)
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), Problem> {
        let list = &mut self.list;
        match name {
            "mode" => list.mode = mode(&value)?,
            "page" => list.page = number(&value, PAGE_MAX.into())?,
            "per_page" => list.per_page = number(&value, PER_PAGE_MAX)?,
            "player" => list.player = non_empty(value),
            "source" => list.source = non_empty(value),
            "from" => list.from_ms = Some(time(&value)?),
            "to" => list.to_ms = Some(time(&value)?),
            "data" => list.data = flag(&value)?,
            "thumbs" => list.thumbs = flag(&value)?,
            "state" => list.all_states = all_states(&value)?,
            "friends" => self.set_friends(&value)?,
            // Authentication reads these.
            "key" | "game" => {}
            name => self.add_filter(name, value)?,
        }
        Ok(())
    }

    fn set_friends(&mut self, value: &str) -> Result<(), Problem> {
        if let Some(player) = value.strip_prefix(FOLLOWS) {
            self.followed_by = Some(player.to_owned());
            return Ok(());
        }
        let friends: Vec<String> =
            value.split(',').filter(|friend| !friend.is_empty()).map(str::to_owned).collect();
        if friends.len() > FRIENDS_MAX {
            return Err(Problem::invalid(format!("must name at most {FRIENDS_MAX} players")));
        }
        self.list.friends = Some(friends);
        Ok(())
    }

    fn add_filter(&mut self, name: &str, value: String) -> Result<(), Problem> {
        let Some(field) = name.strip_prefix("filter.").filter(|field| liveops::is_key(field)) else {
            let detail = "unknown parameter; allowed: `mode`, `filter.FIELD`, `friends`, `player`, `source`, `from`, `to`, `state`, \
                          `data`, `thumbs`, `page`, `per_page`";
            return Err(Problem::invalid(detail));
        };
        if self.list.filters.len() >= FILTERS_MAX {
            return Err(Problem::invalid(format!("a request can have at most {FILTERS_MAX} filters")));
        }
        self.list.filters.push((field.to_owned(), value));
        Ok(())
    }
}

/// Reads the page number and the page size of the moderation queue.
pub(crate) fn read_page(query: &str) -> Result<(u64, u64), Problem> {
    let (mut page, mut per_page) = (1, 20);
    for (name, value) in crate::query_string::pairs(query)? {
        let named = |problem: Problem| problem.field(&name);
        match name.as_str() {
            "page" => page = number(&value, PAGE_MAX.into()).map_err(named)?,
            "per_page" => per_page = number(&value, PER_PAGE_MAX).map_err(named)?,
            "key" | "game" => {}
            _ => return Err(named(Problem::invalid("unknown parameter; allowed: `page`, `per_page`"))),
        }
    }
    Ok((page, per_page))
}

fn non_empty(value: String) -> Option<String> {
    (!value.is_empty()).then_some(value)
}

fn mode(value: &str) -> Result<LevelMode, Problem> {
    let detail = "must be popular, newest, recent, today, yesterday, 7d, 30d or 90d";
    LevelMode::from_label(value).ok_or_else(|| Problem::invalid(detail))
}

fn number(value: &str, max: u64) -> Result<u64, Problem> {
    let number = value.parse().ok().filter(|number| (1..=max).contains(number));
    number.ok_or_else(|| Problem::invalid(format!("must be a whole number between 1 and {max}")))
}

fn time(value: &str) -> Result<i64, Problem> {
    parse_time(value).ok_or_else(|| Problem::invalid("must be an RFC 3339 time or milliseconds since 1970"))
}

fn all_states(value: &str) -> Result<bool, Problem> {
    match value {
        "published" => Ok(false),
        "all" => Ok(true),
        _ => Err(Problem::invalid("must be published or all")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(query: &str, expected: &str) {
        let summary = match LevelListParams::read(query, LevelViewer::Public) {
            Ok(LevelListParams { list, followed_by }) => {
                let LevelQuery { mode, filters, friends, player, source, page, per_page, data, .. } = list;
                let (mode, friends) = (mode.label(), friends.or(followed_by.map(|player| vec![player])));
                let restrictions = format!("{friends:?} {player:?} {source:?}");
                format!("{mode} {filters:?} {restrictions} {page}/{per_page} {data}").replace('"', "")
            }
            Err(problem) => problem.brief(),
        };
        assert_eq!(summary, expected, "{query}");
    }

    #[test]
    fn parameters_are_read_from_the_query_string() {
        check("", "popular [] None None None 1/20 false");
        check("mode=7d&page=3&per_page=1000&data=1", "7d [] None None None 3/1000 true");
        check(
            "filter.size=big&filter.a.b=x%20y",
            "popular [(size, big), (a.b, x y)] None None None 1/20 false",
        );
        check("friends=a,b,,c&player=d&source=e", "popular [] Some([a, b, c]) Some(d) Some(e) 1/20 false");
        check("friends=&player=&source=", "popular [] Some([]) None None 1/20 false");
        check("friends=follows:ann", "popular [] Some([ann]) None None 1/20 false");
        check("key=pm_pk_x&game=demo", "popular [] None None None 1/20 false");
    }

    #[test]
    fn invalid_parameter_is_rejected_by_name() {
        for (query, field) in [
            ("mode=best", "mode"),
            ("page=0", "page"),
            ("per_page=1001", "per_page"),
            ("per_page=-1", "per_page"),
            ("data=yes", "data"),
            ("from=yesterday", "from"),
            ("to=2026-13-01T00:00:00Z", "to"),
            ("state=removed", "state"),
            ("filter=big", "filter"),
            ("filter.=big", "filter."),
            ("filter.a%20b=big", "filter.a b"),
            ("votes=1", "votes"),
        ] {
            check(query, &format!("400 invalid_field ({field})"));
        }
        check(&"filter.a=b&".repeat(21), "400 invalid_field (filter.a)");
        check(&format!("friends={}", "a,".repeat(1001)), "400 invalid_field (friends)");
    }
}
