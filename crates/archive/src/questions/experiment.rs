//! Statistics of experiments: what each variant did, and whether variants differ.
//!
//! # Methods
//! - Conversion of a variant: score interval (Wilson, 1927). Difference of conversions: hybrid score interval (Newcombe,
//!   "Interval estimation for the difference between independent proportions", Statistics in Medicine 17, 1998,
//!   method 10).
//! - Mean of a variant: Student's interval. Difference of means: Welch's test and interval (Welch, 1947).
//! - These are valid for one look at a time that was fixed in advance. People look every day, so each difference also
//!   has a *confidence sequence*: an interval that contains the true difference at all times at once with the stated
//!   probability, and a p-value that may be read whenever. It is the mixture sequential probability ratio test with a
//!   normal mixture (Johari, Pekelis, Walsh, "Always Valid Inference: Continuous Monitoring of A/B Tests", Operations
//!   Research 70, 2022), whose intervals are the normal mixture boundary of Howard, Ramdas, McAuliffe and Sekhon
//!   ("Time-uniform, nonparametric, nonasymptotic confidence sequences", Annals of Statistics 49, 2021). It takes means
//!   as normal, so there is none before each variant has [`SEQUENTIAL_PLAYERS_MIN`] players.
//! - With several variants, each is compared with the first, at a share of the error probability (Bonferroni).
//! - Sample-ratio mismatch: chi-square test of the numbers of players against the planned shares. A mismatch means that
//!   the assignment or the counting is broken, and no other number can be trusted.

/// Players that each variant must have for a confidence sequence.
pub const SEQUENTIAL_PLAYERS_MIN: u64 = 100;
/// A sample-ratio mismatch is reported below this p-value.
pub const MISMATCH_P: f64 = 0.001;
/// The variance of the mixture, as a multiple of the variance of a difference at the planned number of players. The
/// interval is narrowest at that number if this is 8.2, for an error probability of 5 %.
const MIXTURE: f64 = 8.2;

/// What is known of a variant.
#[derive(Clone, Debug, PartialEq)]
pub struct VariantTotals {
    /// Its name.
    pub name: String,
    /// The planned share of the players, in any unit.
    pub share: f64,
    /// The number of players.
    pub players: u64,
    /// Players who converted.
    pub converted: u64,
    /// The sum of the players' values.
    pub sum: f64,
    /// The sum of the squares of the players' values.
    pub sum_of_squares: f64,
}

/// How sure the answer is, and when.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExperimentSettings {
    /// The probability of an interval that does not contain the true value, for the whole experiment.
    pub error: f64,
    /// The number of players of each variant at which confidence sequences are narrowest.
    pub planned_players: u64,
}

impl Default for ExperimentSettings {
    fn default() -> ExperimentSettings {
        ExperimentSettings { error: 0.05, planned_players: 10_000 }
    }
}

/// The result of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct ExperimentResult {
    /// The variants, in the given order; the first is the control.
    pub variants: Vec<VariantResult>,
    /// The p-value of the numbers of players under the planned shares; `None` with fewer than two variants or no
    /// players.
    pub ratio_p: Option<f64>,
    /// True if the numbers of players contradict the planned shares.
    pub is_mismatched: bool,
}

/// The result of one variant.
#[derive(Clone, Debug, PartialEq)]
pub struct VariantResult {
    /// Its name.
    pub name: String,
    /// The number of players.
    pub players: u64,
    /// The share of players who converted.
    pub conversion: Option<Estimate>,
    /// The mean of the players' values.
    pub mean: Option<Estimate>,
    /// The difference of conversions to that of the control; `None` for the control.
    pub conversion_difference: Option<Difference>,
    /// The difference of means to that of the control.
    pub mean_difference: Option<Difference>,
}

/// An estimate and its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

/// A difference to the control.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// For one look at a time fixed in advance.
    pub estimate: Estimate,
    /// The p-value for one look.
    pub p: f64,
    /// For any number of looks; `None` while there are too few players.
    pub sequential: Option<Sequential>,
}

/// What holds at all times at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sequential {
    /// The lower end of the confidence sequence.
    pub low: f64,
    /// The upper end of the confidence sequence.
    pub high: f64,
    /// The always valid p-value.
    pub p: f64,
}

/// Compares the variants with the first of them.
pub fn compare(variants: &[VariantTotals], settings: ExperimentSettings) -> ExperimentResult {
    let comparisons = variants.len().saturating_sub(1).max(1) as f64;
    let each = ExperimentSettings { error: settings.error / comparisons, ..settings };
    let result = |(index, variant): (usize, &VariantTotals)| {
        let control = variants.first().filter(|_| index > 0);
        VariantResult {
            name: variant.name.clone(),
            players: variant.players,
            conversion: wilson(variant.converted, variant.players, settings.error),
            mean: variant.mean_estimate(settings.error),
            conversion_difference: control.and_then(|control| conversion_difference(control, variant, each)),
            mean_difference: control.and_then(|control| mean_difference(control, variant, each)),
        }
    };
    let ratio_p = ratio_p(variants);
    ExperimentResult {
        variants: variants.iter().enumerate().map(result).collect(),
        ratio_p,
        is_mismatched: ratio_p.is_some_and(|p| p < MISMATCH_P),
    }
}

impl VariantTotals {
    fn mean(&self) -> f64 {
        self.sum / self.players as f64
    }

    fn variance(&self) -> f64 {
        let count = self.players as f64;
        ((self.sum_of_squares - self.sum * self.sum / count) / (count - 1.0)).max(0.0)
    }

    fn mean_estimate(&self, error: f64) -> Option<Estimate> {
        if self.players < 2 {
            return None;
        }
        let reach = student_quantile(1.0 - error / 2.0, self.players as f64 - 1.0)
            * (self.variance() / self.players as f64).sqrt();
        Some(Estimate { value: self.mean(), low: self.mean() - reach, high: self.mean() + reach })
    }
}

/// Returns the share of successes with Wilson's score interval.
fn wilson(successes: u64, count: u64, error: f64) -> Option<Estimate> {
    if count == 0 || successes > count {
        return None;
    }
    let (n, p) = (count as f64, successes as f64 / count as f64);
    let z = normal_quantile(1.0 - error / 2.0);
    let middle = (p + z * z / (2.0 * n)) / (1.0 + z * z / n);
    let reach = z / (1.0 + z * z / n) * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
    Some(Estimate { value: p, low: (middle - reach).max(0.0), high: (middle + reach).min(1.0) })
}

fn conversion_difference(
    control: &VariantTotals,
    variant: &VariantTotals,
    settings: ExperimentSettings,
) -> Option<Difference> {
    let ours = wilson(variant.converted, variant.players, settings.error)?;
    let theirs = wilson(control.converted, control.players, settings.error)?;
    let value = ours.value - theirs.value;
    let reach = |one: f64, other: f64| (one * one + other * other).sqrt();
    let estimate = Estimate {
        value,
        low: value - reach(ours.value - ours.low, theirs.high - theirs.value),
        high: value + reach(ours.high - ours.value, theirs.value - theirs.low),
    };
    let (n, m) = (variant.players as f64, control.players as f64);
    // One success and one failure more, so that the variance is not 0 as long as all players do the same.
    let pooled = ((variant.converted + control.converted) as f64 + 1.0) / (n + m + 2.0);
    let spread = pooled * (1.0 - pooled);
    let variance = spread * (1.0 / n + 1.0 / m);
    let p = 2.0 * normal_above(value.abs() / variance.sqrt());
    let enough = control.players.min(variant.players) >= SEQUENTIAL_PLAYERS_MIN;
    let sequential = enough.then(|| sequential(value, variance, spread, settings));
    Some(Difference { estimate, p, sequential })
}

fn mean_difference(
    control: &VariantTotals,
    variant: &VariantTotals,
    settings: ExperimentSettings,
) -> Option<Difference> {
    if control.players < 2 || variant.players < 2 {
        return None;
    }
    let (n, m) = (variant.players as f64, control.players as f64);
    let (ours, theirs) = (variant.variance() / n, control.variance() / m);
    let variance = ours + theirs;
    let value = variant.mean() - control.mean();
    if variance == 0.0 {
        return None;
    }
    let freedom = variance * variance / (ours * ours / (n - 1.0) + theirs * theirs / (m - 1.0));
    let reach = student_quantile(1.0 - settings.error / 2.0, freedom) * variance.sqrt();
    let enough = control.players.min(variant.players) >= SEQUENTIAL_PLAYERS_MIN;
    let spread = (variant.variance() + control.variance()) / 2.0;
    Some(Difference {
        estimate: Estimate { value, low: value - reach, high: value + reach },
        p: 2.0 * student_above(value.abs() / variance.sqrt(), freedom),
        sequential: enough.then(|| sequential(value, variance, spread, settings)),
    })
}

/// Returns the confidence sequence of a difference with this variance. `spread` is the variance of one player.
fn sequential(value: f64, variance: f64, spread: f64, settings: ExperimentSettings) -> Sequential {
    let mixture = MIXTURE * 2.0 * spread / settings.planned_players.max(1) as f64;
    let total = variance + mixture;
    let growth = 0.5 * (total / variance).ln();
    let reach = (2.0 * variance * total / mixture * (growth - settings.error.ln())).sqrt();
    let ratio = value * value * mixture / (2.0 * variance * total) - growth;
    Sequential { low: value - reach, high: value + reach, p: (-ratio).exp().min(1.0) }
}

fn ratio_p(variants: &[VariantTotals]) -> Option<f64> {
    let players: f64 = variants.iter().map(|variant| variant.players as f64).sum();
    let shares: f64 = variants.iter().map(|variant| variant.share).sum();
    let is_valid = variants.len() > 1 && players > 0.0 && variants.iter().all(|variant| variant.share > 0.0);
    is_valid.then(|| {
        let term = |variant: &VariantTotals| {
            let expected = players * variant.share / shares;
            (variant.players as f64 - expected).powi(2) / expected
        };
        let chi_square: f64 = variants.iter().map(term).sum();
        gamma_above((variants.len() - 1) as f64 / 2.0, chi_square / 2.0)
    })
}

/// Returns the logarithm of the gamma function (Lanczos, g = 7, n = 9).
fn ln_gamma(x: f64) -> f64 {
    const COEFFICIENTS: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let base = x + 7.5;
    let series = COEFFICIENTS[1..].iter().zip(1..).map(|(c, n)| c / (x + f64::from(n)));
    let sum: f64 = COEFFICIENTS[0] + series.sum::<f64>();
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * base.ln() - base + sum.ln()
}

/// Returns the regularised incomplete gamma function Q(a, x): by its series below a + 1, else by its continued fraction.
fn gamma_above(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 1.0;
    }
    let scale = (a * x.ln() - x - ln_gamma(a)).exp();
    if x < a + 1.0 {
        let (mut term, mut sum, mut n) = (1.0 / a, 1.0 / a, a);
        while term > sum * 1e-17 {
            n += 1.0;
            term *= x / n;
            sum += term;
        }
        return 1.0 - sum * scale;
    }
    scale * continued_fraction(x + 1.0 - a, |n| (-n * (n - a), x + 2.0 * n + 1.0 - a))
}

/// Evaluates 1 / (first + a₁ / (b₁ + a₂ / (b₂ + ...))) by the modified method of Lentz.
fn continued_fraction(first: f64, term: impl Fn(f64) -> (f64, f64)) -> f64 {
    const TINY: f64 = 1e-300;
    let not_zero = |x: f64| if x.abs() < TINY { TINY } else { x };
    let mut d = 1.0 / not_zero(first);
    let (mut c, mut result) = (1.0 / TINY, d);
    for n in 1..100_000 {
        let (a, b) = term(f64::from(n));
        d = 1.0 / not_zero(a * d + b);
        c = not_zero(b + a / c);
        result *= c * d;
        if (c * d - 1.0).abs() < 1e-15 {
            break;
        }
    }
    result
}

/// Returns the probability that a standard normal variable is above `z`, which is not negative.
fn normal_above(z: f64) -> f64 {
    0.5 * gamma_above(0.5, z * z / 2.0)
}

/// Returns the quantile of the standard normal distribution for `p` from 0.5 on.
fn normal_quantile(p: f64) -> f64 {
    quantile(1.0 - p, normal_above)
}

/// Returns the regularised incomplete beta function for `x` below (a + 1) / (a + b + 2).
fn beta_below_mean(x: f64, a: f64, b: f64) -> f64 {
    let scale = (a * x.ln() + b * (-x).ln_1p() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b)).exp() / a;
    let term = |n: f64| {
        let m = (n / 2.0).floor();
        let coefficient = match n % 2.0 == 0.0 {
            true => m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)),
            false => -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0)),
        };
        (coefficient, 1.0)
    };
    scale * continued_fraction(1.0, term)
}

/// Returns the probability that a variable of Student's distribution is above `t`, which is not negative.
fn student_above(t: f64, freedom: f64) -> f64 {
    let (a, b, x) = (freedom / 2.0, 0.5, freedom / (freedom + t * t));
    let below = match x < (a + 1.0) / (a + b + 2.0) {
        true => beta_below_mean(x, a, b),
        false => 1.0 - beta_below_mean(t * t / (freedom + t * t), b, a),
    };
    below / 2.0
}

/// Returns the quantile of Student's distribution for `p` from 0.5 on.
fn student_quantile(p: f64, freedom: f64) -> f64 {
    quantile(1.0 - p, |t| student_above(t, freedom))
}

/// Finds the value above which the probability is `p`, by halving.
fn quantile(p: f64, above: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while above(high) > p && high < 1e12 {
        high *= 2.0;
    }
    while high - low > high * 1e-14 {
        let middle = (low + high) / 2.0;
        if above(middle) > p {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64) {
        let error = (found - expected).abs() / expected.abs().max(1e-3);
        assert!(error < 1e-8, "{found} instead of {expected}");
    }

    fn variant(players: u64, converted: u64) -> VariantTotals {
        let (sum, sum_of_squares) = (converted as f64, converted as f64);
        VariantTotals { name: "v".to_owned(), share: 1.0, players, converted, sum, sum_of_squares }
    }

    /// A variant with this mean and standard deviation.
    fn with_mean(players: u64, mean: f64, deviation: f64) -> VariantTotals {
        let count = players as f64;
        let sum_of_squares = deviation * deviation * (count - 1.0) + mean * mean * count;
        VariantTotals { sum: mean * count, sum_of_squares, ..variant(players, 0) }
    }

    /// Expected values are those of scipy 1.17.
    #[test]
    fn distributions_agree_with_scipy() {
        for (p, expected) in
            [(0.9, 1.2815515655446004), (0.975, 1.959963984540054), (0.9999, 3.719016485455709)]
        {
            close(normal_quantile(p), expected);
        }
        for (freedom, p, expected) in [
            (1.0, 0.975, 12.706204736174694),
            (1.0, 0.9995, 636.6192487687897),
            (2.5, 0.9, 1.7302509288071766),
            (5.0, 0.9995, 6.868826625881276),
            (30.0, 0.975, 2.0422724563012378),
            (1_000.0, 0.9, 1.2823987214609247),
        ] {
            close(student_quantile(p, freedom), expected);
        }
        for (t, freedom, expected) in [
            (0.5, 3.0, 0.651447964848151),
            (2.0, 10.0, 0.07338803477074037),
            (3.3, 17.8, 0.004028224204206455),
            (12.0, 4.0, 0.000276428548502973),
        ] {
            close(2.0 * student_above(t, freedom), expected);
        }
        for (x, freedom, expected) in [
            (3.84, 1.0, 0.05004352124870519),
            (10.0, 3.0, 0.01856613546304325),
            (0.1, 2.0, 0.951229424500714),
            (50.0, 5.0, 1.3857973367009573e-9),
        ] {
            close(gamma_above(freedom / 2.0, x / 2.0), expected);
        }
    }

    /// The examples of Newcombe's two papers of 1998, which print four digits.
    #[test]
    fn intervals_of_conversions_are_those_of_the_literature() {
        for (successes, count, low, high) in [
            (81, 263, 0.2553, 0.3662),
            (15, 148, 0.0624, 0.1605),
            (0, 20, 0.0, 0.1611),
            (1, 29, 0.0061, 0.1718),
        ] {
            let found = wilson(successes, count, 0.05).expect("there are players");
            assert!((found.low - low).abs() < 5e-5 && (found.high - high).abs() < 5e-5, "{found:?}");
        }
        for (ours, theirs, low, high) in [
            ((70, 56), (80, 48), 0.0524, 0.3339),
            ((10, 9), (10, 3), 0.1705, 0.8090),
            ((10, 10), (20, 0), 0.6791, 1.0),
        ] {
            let (ours, theirs) = (variant(ours.0, ours.1), variant(theirs.0, theirs.1));
            let found =
                conversion_difference(&theirs, &ours, ExperimentSettings::default()).expect("players");
            let Estimate { low: l, high: h, .. } = found.estimate;
            assert!((l - low).abs() < 5e-5 && (h - high).abs() < 5e-5, "{found:?}");
            assert_eq!(found.sequential, None);
        }
    }

    #[test]
    fn difference_of_means_agrees_with_scipy() {
        for (control, variant, low, high, p) in [
            (
                with_mean(120, 20.5, 4.2),
                with_mean(95, 19.1, 6.3),
                -2.8844416897591683,
                0.0844416897591711,
                0.06435372989557651,
            ),
            (
                with_mean(5_000, 1.25, 3.1),
                with_mean(4_000, 1.31, 2.7),
                -0.05995099487749819,
                0.1799509948774983,
                0.3268584204792297,
            ),
            (
                with_mean(3, 5.0, 1.0),
                with_mean(4, 9.0, 2.0),
                0.9460641146944972,
                7.053935885305503,
                0.02075391982283548,
            ),
        ] {
            let found = mean_difference(&control, &variant, ExperimentSettings::default()).expect("players");
            close(found.estimate.low, low);
            close(found.estimate.high, high);
            close(found.p, p);
        }
    }

    #[test]
    fn sample_ratio_mismatch_is_found() {
        let check = |players: &[u64], shares: &[f64], expected: f64, is_mismatched: bool| {
            let variants = players.iter().zip(shares);
            let variants: Vec<VariantTotals> = variants
                .map(|(players, share)| VariantTotals { share: *share, ..variant(*players, 0) })
                .collect();
            let result = compare(&variants, ExperimentSettings::default());
            close(result.ratio_p.expect("there are players"), expected);
            assert_eq!(result.is_mismatched, is_mismatched);
        };
        check(&[5_000, 5_200], &[1.0, 1.0], 0.0476703806561615, false);
        check(&[100, 200, 330], &[1.0, 1.0, 1.0], 3.1237970669358163e-28, true);
        check(&[9_000, 1_300], &[90.0, 10.0], 7.449573586492684e-19, true);
    }

    #[test]
    fn variants_without_players_have_no_result() {
        let variants = [variant(0, 0), variant(1, 1), variant(0, 0)];
        let result = compare(&variants, ExperimentSettings::default());
        assert_eq!(result.variants[0].conversion, None);
        assert_eq!(result.variants[1].mean, None);
        assert_eq!(result.variants[1].conversion_difference, None);
        assert_eq!(compare(&[], ExperimentSettings::default()).ratio_p, None);
        let same = [with_mean(200, 2.0, 0.0), with_mean(200, 2.0, 0.0)];
        assert_eq!(compare(&same, ExperimentSettings::default()).variants[1].mean_difference, None);
    }

    #[test]
    fn several_variants_share_the_error_probability() {
        let one = compare(&[variant(1_000, 100), variant(1_000, 120)], ExperimentSettings::default());
        let settings = ExperimentSettings { error: 0.1, ..ExperimentSettings::default() };
        let two = compare(&[variant(1_000, 100), variant(1_000, 120), variant(1_000, 90)], settings);
        assert_eq!(one.variants[1].conversion_difference, two.variants[1].conversion_difference);
    }

    #[test]
    fn interval_excludes_zero_exactly_if_p_is_below_the_error() {
        for converted in (100..200).step_by(3) {
            let result =
                compare(&[variant(1_000, 100), variant(1_000, converted)], ExperimentSettings::default());
            let difference = result.variants[1].conversion_difference.expect("there are players");
            let sequential = difference.sequential.expect("there are enough players");
            assert_eq!(sequential.low > 0.0, sequential.p < 0.05, "{converted}");
        }
    }

    /// Splitmix64, so that each run of the tests simulates the same.
    struct Random(u64);

    impl Random {
        fn share(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut x = self.0;
            x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((x ^ x >> 31) >> 11) as f64 / (1u64 << 53) as f64
        }
    }

    /// Looks after every 200 players of each variant, up to 10,000, and returns the shares of experiments in which a look
    /// found a difference: by the p-value of one look, and by the sequential one.
    fn peek(experiments: u32, rates: [f64; 2], is_mean: bool) -> (f64, f64) {
        let mut random = Random(7);
        let (mut by_one_look, mut by_sequence) = (0, 0);
        for _ in 0..experiments {
            let mut totals = [variant(0, 0), variant(0, 0)];
            let mut found = (false, false);
            for _ in 0..50 {
                for (totals, rate) in totals.iter_mut().zip(rates) {
                    for _ in 0..200 {
                        // Exponential values are far from normal, like money.
                        let value = if is_mean {
                            -rate * (1.0 - random.share()).ln()
                        } else {
                            f64::from(u8::from(random.share() < rate))
                        };
                        totals.players += 1;
                        totals.converted += u64::from(!is_mean && value > 0.0);
                        totals.sum += value;
                        totals.sum_of_squares += value * value;
                    }
                }
                let [control, variant] = &totals;
                let settings = ExperimentSettings::default();
                let difference = if is_mean { mean_difference } else { conversion_difference };
                let difference = difference(control, variant, settings).expect("there are players");
                found.0 |= difference.p < 0.05;
                found.1 |= difference.sequential.expect("there are enough players").p < 0.05;
            }
            by_one_look += u32::from(found.0);
            by_sequence += u32::from(found.1);
        }
        (f64::from(by_one_look) / f64::from(experiments), f64::from(by_sequence) / f64::from(experiments))
    }

    #[test]
    fn looking_often_finds_no_more_false_differences_than_promised() {
        for (rates, is_mean) in [([0.1, 0.1], false), ([0.01, 0.01], false), ([2.0, 2.0], true)] {
            let (by_one_look, by_sequence) = peek(300, rates, is_mean);
            assert!(by_sequence <= 0.05, "{rates:?}: {by_sequence}");
            // The reason for the sequence: the usual test finds a difference in a third of equal variants.
            assert!(by_one_look > 0.2, "{rates:?}: {by_one_look}");
        }
    }

    #[test]
    fn looking_often_finds_true_differences() {
        for (rates, is_mean) in [([0.1, 0.12], false), ([2.0, 2.15], true)] {
            let (_, by_sequence) = peek(100, rates, is_mean);
            assert!(by_sequence > 0.85, "{rates:?}: {by_sequence}");
        }
    }
}
