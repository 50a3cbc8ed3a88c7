//! Query parameters of leaderboard reads.

use liveops::boards::{BoardQuery, BoardWindow, FRIENDS_MAX, PER_PAGE_MAX, SOURCE};
use pipeline::time::parse_time;

use crate::problem::Problem;
use crate::query_string::flag;

/// Filters of one request: as many as a board can declare.
const FILTERS_MAX: usize = 4;
/// The last page of a list.
pub(crate) const PAGE_MAX: u32 = 1_000_000;
/// Prefix of the player whose follows count as friends.
const FOLLOWS: &str = "follows:";

/// The query parameters of a page.
#[derive(Debug, Default)]
pub(crate) struct BoardListParams {
    pub(crate) query: BoardQuery,
    /// Restricts the page to the players that this player follows.
    pub(crate) followed_by: Option<String>,
    /// The access code of a private board.
    pub(crate) code: Option<String>,
}

/// Reads a query string that has no parameter but the access code of a private board.
pub(crate) fn read_code(query: &str) -> Result<Option<String>, Problem> {
    let mut code = None;
    for (name, value) in crate::query_string::pairs(query)? {
        match name.as_str() {
            "code" => code = non_empty(value),
            "key" | "game" => {}
            _ => return Err(Problem::invalid("unknown parameter; allowed: `code`").field(name)),
        }
    }
    Ok(code)
}

impl BoardListParams {
    pub(crate) fn read(query: &str) -> Result<BoardListParams, Problem> {
        let mut params = BoardListParams::default();
        for (name, value) in crate::query_string::pairs(query)? {
            params.set(&name, value).map_err(|problem| problem.field(name))?;
        }
        Ok(params)
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), Problem> {
        let query = &mut self.query;
        match name {
            "window" => query.window = Some(window(&value)?),
            "at" => query.at_ms = Some(time(&value)?),
            "season" => query.season = Some(number(&value, u32::MAX)?),
            "page" => query.page = number(&value, PAGE_MAX)?,
            "per_page" => query.per_page = number(&value, PER_PAGE_MAX)?,
            "by" | "mode" => query.newest = is_newest(&value)?,
            "highest" => query.highest = Some(flag(&value)?),
            "around" => query.around = non_empty(value),
            "player" => query.player = non_empty(value),
            "code" => self.code = non_empty(value),
            "source" => query.filter.extend(non_empty(value).map(|value| (SOURCE.to_owned(), value))),
            "friends" => self.set_friends(value)?,
            // Authentication reads these.
            "key" | "game" => {}
            name => self.add_filter(name, value)?,
        }
        Ok(())
    }

    fn set_friends(&mut self, value: String) -> Result<(), Problem> {
        if let Some(player) = value.strip_prefix(FOLLOWS) {
            self.followed_by = Some(player.to_owned());
            return Ok(());
        }
        let friends = value.split(',').filter(|friend| !friend.is_empty()).map(str::to_owned);
        let friends: Vec<String> = friends.collect();
        if friends.len() > FRIENDS_MAX {
            return Err(Problem::invalid(format!("must name at most {FRIENDS_MAX} players")));
        }
        self.query.friends = Some(friends);
        Ok(())
    }

    fn add_filter(&mut self, name: &str, value: String) -> Result<(), Problem> {
        let Some(field) = name.strip_prefix("filter.").filter(|field| liveops::is_key(field)) else {
            let detail = "unknown parameter; allowed: `window`, `at`, `season`, `page`, `per_page`, `by`, `highest`, `around`, `player`, \
                          `friends`, `filter.FIELD`, `source`, `code`";
            return Err(Problem::invalid(detail));
        };
        if self.query.filter.len() > FILTERS_MAX {
            return Err(Problem::invalid(format!("a request can have at most {FILTERS_MAX} filters")));
        }
        self.query.filter.insert(field.to_owned(), value);
        Ok(())
    }
}

fn non_empty(value: String) -> Option<String> {
    (!value.is_empty()).then_some(value)
}

fn window(value: &str) -> Result<BoardWindow, Problem> {
    let detail = "must be day, week, month, season, all, 24h, 7d or 30d";
    BoardWindow::from_label(value).ok_or_else(|| Problem::invalid(detail))
}

fn is_newest(value: &str) -> Result<bool, Problem> {
    match value {
        "score" => Ok(false),
        "newest" => Ok(true),
        _ => Err(Problem::invalid("must be score or newest")),
    }
}

fn number(value: &str, max: u32) -> Result<u32, Problem> {
    let number = value.parse().ok().filter(|number| (1..=max).contains(number));
    number.ok_or_else(|| match max {
        u32::MAX => Problem::invalid("must be a whole number of at least 1"),
        max => Problem::invalid(format!("must be a whole number between 1 and {max}")),
    })
}

fn time(value: &str) -> Result<i64, Problem> {
    parse_time(value).ok_or_else(|| Problem::invalid("must be an RFC 3339 time or milliseconds since 1970"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(query: &str, expected: &str) {
        let summary = match BoardListParams::read(query) {
            Ok(BoardListParams { query, followed_by, code }) => {
                let BoardQuery {
                    window,
                    filter,
                    page,
                    per_page,
                    newest,
                    highest,
                    friends,
                    season,
                    at_ms,
                    ..
                } = query;
                let window = window.map_or("-", BoardWindow::label);
                let friends = friends.or(followed_by.map(|player| vec![format!("of {player}")]));
                format!("{window} {filter:?} {page}/{per_page} {newest} {highest:?} {friends:?} {season:?} {at_ms:?} {code:?}")
                    .replace('"', "")
            }
            Err(problem) => problem.brief(),
        };
        assert_eq!(summary, expected, "{query}");
    }

    #[test]
    fn parameters_are_read_from_the_query_string() {
        check("", "- {} 0/0 false None None None None None");
        check(
            "window=7d&page=2&per_page=50&filter.car=red&source=web&key=k",
            "7d {:source: web, car: red} 2/50 false None None None None None",
        );
        check("by=newest&highest=true&code=c", "- {} 0/0 true Some(true) None None None Some(c)");
        check("mode=newest&friends=a,b,", "- {} 0/0 true None Some([a, b]) None None None");
        check("friends=follows:bo&season=3", "- {} 0/0 false None Some([of bo]) Some(3) None None");
        check("at=2026-11-20T00:00:00Z", "- {} 0/0 false None None None Some(1795132800000) None");
    }

    #[test]
    fn invalid_parameter_is_rejected_by_name() {
        for (query, field) in [
            ("window=year", "window"),
            ("page=0", "page"),
            ("page=x", "page"),
            ("page=1000001", "page"),
            ("per_page=1001", "per_page"),
            ("by=votes", "by"),
            ("highest=maybe", "highest"),
            ("at=yesterday", "at"),
            ("season=0", "season"),
            ("filter.a+b=1", "filter.a b"),
            ("table=other", "table"),
        ] {
            check(query, &format!("400 invalid_field ({field})"));
        }
        let friends = vec!["f"; FRIENDS_MAX + 1].join(",");
        check(&format!("friends={friends}"), "400 invalid_field (friends)");
    }
}
