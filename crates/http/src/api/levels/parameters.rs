//! What a list of levels is asked with.

use liveops::levels::{LevelMode, LevelQuery, LevelViewer};

use crate::problem::Problem;
use pipeline::time::parse_time;

/// Levels a page.
const PER_PAGE_MAX: u64 = 1_000;
/// Friends that one request may name.
const FRIENDS_MAX: usize = 1_000;
/// As many as a level may have.
const FILTERS_MAX: usize = 20;
/// Before a player whose follows are the friends.
const FOLLOWS: &str = "follows:";

/// Whose levels are asked for, beside the list's own conditions.
pub struct Asked {
    /// The list.
    pub list: LevelQuery,
    /// The friends are those whom this player follows.
    pub followed_by: Option<String>,
}

/// Reads the query string of a list.
pub fn list(query: &str, viewer: LevelViewer) -> Result<Asked, Problem> {
    let mut asked =
        Asked { list: LevelQuery { viewer, ..LevelQuery::of(LevelMode::Popular) }, followed_by: None };
    for (name, value) in crate::query_string::pairs(query)? {
        asked.take(&name, value).map_err(|problem| problem.field(name))?;
    }
    Ok(asked)
}

impl Asked {
    fn take(&mut self, name: &str, value: String) -> Result<(), Problem> {
        let list = &mut self.list;
        match name {
            "mode" => list.mode = mode(&value)?,
            "page" => list.page = number(&value, u64::MAX)?,
            "per_page" => list.per_page = number(&value, PER_PAGE_MAX)?,
            "player" => list.player = some(value),
            "source" => list.source = some(value),
            "from" => list.from_ms = Some(time(&value)?),
            "to" => list.to_ms = Some(time(&value)?),
            "data" => list.data = flag(&value)?,
            "thumbs" => list.thumbs = flag(&value)?,
            "state" => list.all_states = all_states(&value)?,
            "friends" => self.friends(&value)?,
            // The credential and the game it is for have been read.
            "key" | "game" => {}
            name => self.filter(name, value)?,
        }
        Ok(())
    }

    fn friends(&mut self, value: &str) -> Result<(), Problem> {
        if let Some(player) = value.strip_prefix(FOLLOWS) {
            self.followed_by = Some(player.to_owned());
            return Ok(());
        }
        let friends: Vec<String> =
            value.split(',').filter(|friend| !friend.is_empty()).map(str::to_owned).collect();
        if friends.len() > FRIENDS_MAX {
            return Err(Problem::invalid(format!("it names at most {FRIENDS_MAX} players")));
        }
        self.list.friends = Some(friends);
        Ok(())
    }

    fn filter(&mut self, name: &str, value: String) -> Result<(), Problem> {
        let Some(field) = name.strip_prefix("filter.").filter(|field| liveops::is_key(field)) else {
            let detail = "there are `mode`, `filter.FIELD`, `friends`, `player`, `source`, `from`, `to`, `state`, \
                          `data`, `thumbs`, `page` and `per_page`";
            return Err(Problem::invalid(detail));
        };
        if self.list.filters.len() >= FILTERS_MAX {
            return Err(Problem::invalid(format!("there are at most {FILTERS_MAX} filters")));
        }
        self.list.filters.push((field.to_owned(), value));
        Ok(())
    }
}

/// Which page of a queue is asked for.
pub fn page(query: &str) -> Result<(u64, u64), Problem> {
    let (mut page, mut per_page) = (1, 20);
    for (name, value) in crate::query_string::pairs(query)? {
        let named = |problem: Problem| problem.field(&name);
        match name.as_str() {
            "page" => page = number(&value, u64::MAX).map_err(named)?,
            "per_page" => per_page = number(&value, PER_PAGE_MAX).map_err(named)?,
            "key" | "game" => {}
            _ => return Err(named(Problem::invalid("there are `page` and `per_page`"))),
        }
    }
    Ok((page, per_page))
}

fn some(value: String) -> Option<String> {
    (!value.is_empty()).then_some(value)
}

fn mode(value: &str) -> Result<LevelMode, Problem> {
    let detail = "it is popular, newest, recent, today, yesterday, 7d, 30d or 90d";
    LevelMode::from_label(value).ok_or_else(|| Problem::invalid(detail))
}

fn number(value: &str, max: u64) -> Result<u64, Problem> {
    let number = value.parse().ok().filter(|number| (1..=max).contains(number));
    number.ok_or_else(|| match max {
        u64::MAX => Problem::invalid("it is a whole number from 1"),
        max => Problem::invalid(format!("it is a whole number from 1 to {max}")),
    })
}

fn time(value: &str) -> Result<i64, Problem> {
    parse_time(value).ok_or_else(|| Problem::invalid("it is RFC 3339 or milliseconds since 1970"))
}

fn flag(value: &str) -> Result<bool, Problem> {
    match value {
        "0" | "false" => Ok(false),
        "1" | "true" => Ok(true),
        _ => Err(Problem::invalid("it is 0 or 1")),
    }
}

fn all_states(value: &str) -> Result<bool, Problem> {
    match value {
        "published" => Ok(false),
        "all" => Ok(true),
        _ => Err(Problem::invalid("it is published or all")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(query: &str, expected: &str) {
        let told = match list(query, LevelViewer::Public) {
            Ok(Asked { list, followed_by }) => {
                let LevelQuery { mode, filters, friends, player, source, page, per_page, data, .. } = list;
                let (mode, friends) = (mode.label(), friends.or(followed_by.map(|player| vec![player])));
                let who = format!("{friends:?} {player:?} {source:?}");
                format!("{mode} {filters:?} {who} {page}/{per_page} {data}").replace('"', "")
            }
            Err(problem) => problem.brief(),
        };
        assert_eq!(told, expected, "{query}");
    }

    #[test]
    fn a_list_is_asked_for_by_names() {
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
    fn what_is_wrong_with_a_list_is_named() {
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
