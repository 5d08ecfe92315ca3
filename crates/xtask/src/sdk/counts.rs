//! Counts of passed, failed and skipped tests, out of what each test runner prints.

use crate::step::Tally;

/// The last line of pytest: `3 failed, 40 passed, 1 skipped in 2.31s`.
pub fn pytest(output: &str) -> Tally {
    let mut tally = Tally::default();
    for part in output.lines().last().unwrap_or_default().split(',') {
        let mut words = part.split_whitespace();
        let (Some(Ok(count)), Some(word)) = (words.next().map(str::parse::<usize>), words.next()) else {
            continue;
        };
        match word {
            "passed" => tally.passed += count,
            "failed" | "error" | "errors" => tally.failed += count,
            "skipped" | "xfailed" | "xpassed" | "deselected" => tally.skipped += count,
            _ => {}
        }
    }
    tally
}

/// The closing lines of node's TAP: `# pass 40`.
pub fn tap(output: &str) -> Tally {
    let count = |word: &str| {
        output
            .lines()
            .filter_map(|line| line.strip_prefix("# ")?.strip_prefix(word)?.trim().parse::<usize>().ok())
            .sum::<usize>()
    };
    Tally {
        passed: count("pass "),
        failed: count("fail ") + count("cancelled "),
        skipped: count("skipped ") + count("todo "),
        ..Tally::default()
    }
}

/// The closing line of Maven's Surefire: `Tests run: 44, Failures: 1, Errors: 1, Skipped: 2`. The lines of
/// single classes go on with the time they took.
pub fn surefire(output: &str) -> Tally {
    let closing = output.lines().filter_map(|line| line.split_once("Tests run: "));
    let closing = closing.map(|(_, counts)| counts).rfind(|counts| !counts.contains("Time elapsed"));
    let numbers = closing.unwrap_or_default().split(|c: char| !c.is_ascii_digit());
    let numbers: Vec<usize> = numbers.filter_map(|number| number.parse().ok()).collect();
    let [run, failures, errors, skipped] = numbers.as_slice() else {
        return Tally::default();
    };
    let failed = failures + errors;
    Tally { passed: run.saturating_sub(failed + skipped), failed, skipped: *skipped, ..Tally::default() }
}

/// The lines of `go test -v` about tests that are no part of another: `--- PASS: TestPages (0.10s)`.
pub fn go(output: &str) -> Tally {
    let count = |verdict: &str| output.lines().filter(|line| line.starts_with(verdict)).count();
    Tally {
        passed: count("--- PASS: "),
        failed: count("--- FAIL: "),
        skipped: count("--- SKIP: "),
        ..Tally::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tally: &Tally, expected: (usize, usize, usize)) {
        assert_eq!((tally.passed, tally.failed, tally.skipped), expected);
    }

    #[test]
    fn counts_are_read_from_each_runner() {
        check(&pytest("....\n3 failed, 40 passed, 1 skipped in 2.31s"), (40, 3, 1));
        check(
            &tap("ok 1 - a\n# tests 4\n# pass 2\n# fail 1\n# cancelled 0\n# skipped 1\n# todo 0\n"),
            (2, 1, 1),
        );
        let maven = "\
[INFO] Tests run: 9, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 2.1 s - in QueueTour
[ERROR] Tests run: 44, Failures: 1, Errors: 2, Skipped: 3
[INFO] BUILD FAILURE";
        check(&surefire(maven), (38, 3, 3));
        check(&surefire("[ERROR] COMPILATION ERROR"), (0, 0, 0));
        let go_output =
            "--- PASS: TestA (0.00s)\n    --- PASS: TestA/part (0.00s)\n--- FAIL: TestB (0.10s)\nFAIL";
        check(&go(go_output), (1, 1, 0));
    }
}
