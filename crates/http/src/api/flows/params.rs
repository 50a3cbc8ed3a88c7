//! Query parameters of `GET /v1/flows`: filters, order and page.

use std::net::IpAddr;

use model::flows::{Flow, Quality};

use crate::problem::Problem;
use crate::query_string::pairs;

const PER_PAGE: usize = 100;
const PER_PAGE_MAX: usize = 1_000;
/// The list shows the worst flows; it is not an export.
const PAGES_MAX: usize = 10_000;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Sort {
    Mos,
    Loss,
    Jitter,
    Rtt,
    Started,
    LastSeen,
}

#[derive(Debug, PartialEq)]
pub(super) struct FlowListParams {
    sort: Sort,
    end: Option<String>,
    address: Option<IpAddr>,
    mos_below: Option<f64>,
    loss_above: Option<f64>,
    jitter_above_ms: Option<f64>,
    rtt_above_ms: Option<f64>,
    pub(super) page: usize,
    pub(super) per_page: usize,
}

impl FlowListParams {
    pub(super) fn read(query: &str) -> Result<FlowListParams, Problem> {
        let mut params = FlowListParams {
            sort: Sort::Mos,
            end: None,
            address: None,
            mos_below: None,
            loss_above: None,
            jitter_above_ms: None,
            rtt_above_ms: None,
            page: 1,
            per_page: PER_PAGE,
        };
        for (name, value) in pairs(query)? {
            params.set(&name, value).map_err(|detail| Problem::invalid(detail).field(&name))?;
        }
        Ok(params)
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), &'static str> {
        match name {
            "sort" => self.sort = sort(&value)?,
            "end" => self.end = Some(value),
            "address" => self.address = Some(value.parse().map_err(|_| "must be an IP address")?),
            "mos_below" => self.mos_below = Some(number(&value)?),
            "loss_above" => self.loss_above = Some(number(&value)?),
            "jitter_above_ms" => self.jitter_above_ms = Some(number(&value)?),
            "rtt_above_ms" => self.rtt_above_ms = Some(number(&value)?),
            "page" => self.page = whole_number(&value, PAGES_MAX).ok_or("must be between 1 and 10,000")?,
            "per_page" => {
                self.per_page = whole_number(&value, PER_PAGE_MAX).ok_or("must be between 1 and 1,000")?
            }
            // Authentication reads these.
            "key" | "game" => {}
            _ => return Err("unknown parameter"),
        }
        Ok(())
    }

    pub(super) fn matches(&self, flow: &Flow, recent: &Quality) -> bool {
        let ends = [flow.from(), flow.to()];
        let is_end = |id: &String| ends.iter().any(|end| end.id == id);
        let is_at = |address: &IpAddr| {
            ends.iter()
                .any(|end| end.address.is_some_and(|at| at.ip().to_canonical() == address.to_canonical()))
        };
        self.end.as_ref().is_none_or(is_end)
            && self.address.as_ref().is_none_or(is_at)
            && self.mos_below.is_none_or(|mos| recent.mos < mos)
            && self.loss_above.is_none_or(|loss| recent.loss() > loss)
            && self.jitter_above_ms.is_none_or(|jitter_ms| recent.jitter_ms > jitter_ms)
            && self.rtt_above_ms.is_none_or(|rtt_ms| recent.rtt_ms.is_some_and(|known| known > rtt_ms))
    }

    /// Returns the sort key of a flow; the smallest comes first.
    pub(super) fn rank(&self, flow: &Flow, recent: &Quality) -> f64 {
        match self.sort {
            Sort::Mos => recent.mos,
            Sort::Loss => -recent.loss(),
            Sort::Jitter => -recent.jitter_ms,
            Sort::Rtt => -recent.rtt_ms.unwrap_or(-1.0),
            Sort::Started => -(flow.opened_ms as f64),
            Sort::LastSeen => -(flow.last_ms as f64),
        }
    }

    /// Returns the ids of the page. Only flows up to the end of the page are sorted; ties are ordered by id.
    pub(super) fn page_of(&self, mut ranked: Vec<(f64, u64)>) -> Vec<u64> {
        let until = (self.page * self.per_page).min(ranked.len());
        let from = ((self.page - 1) * self.per_page).min(until);
        let order =
            |one: &(f64, u64), other: &(f64, u64)| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1));
        if until < ranked.len() {
            ranked.select_nth_unstable_by(until, order);
            ranked.truncate(until);
        }
        ranked.sort_unstable_by(order);
        ranked[from..].iter().map(|(_, id)| *id).collect()
    }
}

fn sort(value: &str) -> Result<Sort, &'static str> {
    Ok(match value {
        "mos" => Sort::Mos,
        "loss" => Sort::Loss,
        "jitter" => Sort::Jitter,
        "rtt" => Sort::Rtt,
        "started" => Sort::Started,
        "last_seen" => Sort::LastSeen,
        _ => return Err("must be `mos`, `loss`, `jitter`, `rtt`, `started` or `last_seen`"),
    })
}

fn number(value: &str) -> Result<f64, &'static str> {
    value.parse().ok().filter(|number: &f64| number.is_finite()).ok_or("must be a number")
}

fn whole_number(value: &str, max: usize) -> Option<usize> {
    value.parse().ok().filter(|whole| (1..=max).contains(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_equals_a_slice_of_the_sorted_list() {
        let ranked: Vec<(f64, u64)> = (0..1_000).map(|id| (((id * 7_919) % 100) as f64, id)).collect();
        let mut sorted = ranked.clone();
        sorted.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        for (page, per_page) in [(1, 100), (3, 7), (10, 100), (11, 100), (1, 1_000), (143, 7)] {
            let params = FlowListParams {
                page,
                per_page,
                ..FlowListParams::read("").expect("an empty query string is valid")
            };
            let expected = sorted.iter().map(|(_, id)| *id).skip((page - 1) * per_page).take(per_page);
            assert_eq!(params.page_of(ranked.clone()), expected.collect::<Vec<_>>(), "{page} of {per_page}");
        }
    }

    #[test]
    fn invalid_parameter_is_rejected_by_name() {
        let wrong =
            ["sort=x", "address=bo", "mos_below=x", "loss_above=inf", "page=0", "per_page=1001", "x=1"];
        for query in wrong {
            let problem = FlowListParams::read(query).expect_err(query);
            let field = query.split('=').next().expect("a name");
            let problem_text = format!("{problem:?}");
            assert!(problem.status() == 400 && problem_text.contains(field), "{query}: {problem_text}");
        }
        assert_eq!(
            FlowListParams::read("sort=loss&per_page=5&key=pm_pk_x").expect("valid parameters").per_page,
            5
        );
    }
}
