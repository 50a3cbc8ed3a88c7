"""Interleaved rounds, A B A B A B: load from other processes then affects all subjects alike."""

from statistics import median


def alternate(subjects, run, rounds, log):
    """Runs each subject once per round and returns the results by subject, in order."""
    results = {subject: [] for subject in subjects}
    for number in range(rounds):
        for subject in subjects:
            result = run(subject)
            results[subject].append(result)
            log(f"  round {number + 1}/{rounds}  {result['subject']}: {brief(result)}")
    return results


def ratios(ours, theirs, figure):
    """Returns their figure divided by ours within each round, with the median and the extremes."""
    pairs = zip((row.get(figure) for row in ours), (row.get(figure) for row in theirs))
    each = [their / our for our, their in pairs if our and their]
    if not each:
        return None
    return {"figure": figure, "each": each, "median": median(each), "min": min(each), "max": max(each)}


def summary(rows, figure):
    """Returns median, lowest and highest value of a figure over the rounds."""
    values = [row[figure] for row in rows if row.get(figure) is not None]
    return {"median": median(values), "min": min(values), "max": max(values)} if values else None


def brief(result):
    figures = ("cpu_us", "subscriber_bytes", "computation_us", "p50_us", "p99_us", "cores", "rate_max", "errors")
    words = [f"{name} {result[name]:.4g}" for name in figures if result.get(name) is not None]
    return ", ".join(words)
