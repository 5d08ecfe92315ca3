//! The scenario list that all clients share: who has covered what, and what a client cannot do.
//!
//! Every scenario must have a passing test in every client, unless the list itself says that the client lacks
//! the call, and why. A tour writes the scenarios of each passing test into a file, so what counts is what ran.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::programs::root;
use crate::step::Tally;

/// Where the list is, in the workspace.
pub const PATH: &str = "tests/sdk/scenarios.json";

/// The scenario list, as far as coverage goes.
pub struct Scenarios {
    scenarios: Vec<Scenario>,
}

struct Scenario {
    id: String,
    /// Clients that lack the call, each with the reason.
    lacking: Vec<(String, String)>,
}

impl Scenarios {
    pub fn read() -> Result<Self, String> {
        let path = root().join(PATH);
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{} ({error})", path.display()))?;
        Self::parse(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let document: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let list = document["scenarios"].as_array().ok_or("there is no list `scenarios`")?;
        let mut seen = BTreeSet::new();
        let mut scenarios = Vec::new();
        for one in list {
            let id = one["id"].as_str().ok_or("a scenario has no id")?.to_owned();
            if !seen.insert(id.clone()) {
                return Err(format!("scenario {id} is listed twice"));
            }
            let lacking = one["lacking"].as_object().into_iter().flatten();
            let lacking = lacking.map(|(client, reason)| match reason.as_str() {
                Some(reason) if !reason.is_empty() => Ok((client.clone(), reason.to_owned())),
                _ => Err(format!("scenario {id} gives no reason why {client} lacks it")),
            });
            scenarios.push(Scenario { lacking: lacking.collect::<Result<_, _>>()?, id });
        }
        Ok(Self { scenarios })
    }

    /// Adds to `tally` what the tour of `client` left out, given the lines it wrote, and says how much it covered.
    pub fn check(&self, client: &str, covered: &str, tally: &mut Tally) {
        let covered: BTreeSet<&str> = covered.lines().collect();
        let mut covered_count = 0;
        let mut lacking = Vec::new();
        for scenario in &self.scenarios {
            let reason = scenario.lacking.iter().find(|(name, _)| name == client);
            match (covered.contains(scenario.id.as_str()), reason) {
                (true, None) => covered_count += 1,
                (false, Some((_, reason))) => lacking.push(format!("{} ({reason})", scenario.id)),
                (true, Some(_)) => tally.check(Err(format!(
                    "scenario {} passed in {client}, and the list says {client} lacks it",
                    scenario.id
                ))),
                (false, None) => {
                    tally.check(Err(format!("scenario {} has no passing test in {client}", scenario.id)));
                }
            }
        }
        let is_known = |id: &str| self.scenarios.iter().any(|scenario| scenario.id == id);
        for unknown in covered.iter().filter(|id| !is_known(id)) {
            tally.check(Err(format!("{client} covers {unknown:?}, which is no scenario of {PATH}")));
        }
        let (passed, failed, skipped) = (tally.passed, tally.failed, tally.skipped);
        let scenario_count = self.scenarios.len();
        tally.note(format!(
            "{client}: {passed} passed, {failed} failed, {skipped} skipped; {covered_count} of {scenario_count} scenarios"
        ));
        for one in lacking {
            tally.note(format!("not in this client: {one}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"{"scenarios": [{"id": "a"}, {"id": "b", "lacking": {"go": "no such call"}}]}"#;

    fn failures(client: &str, covered: &str) -> Vec<String> {
        let mut tally = Tally::default();
        Scenarios::parse(LIST).unwrap().check(client, covered, &mut tally);
        assert_eq!(tally.failed, tally.failures.len());
        tally.failures
    }

    #[test]
    fn every_scenario_needs_a_test_or_a_reason() {
        assert_eq!(failures("python", "a\nb\nb\n"), Vec::<String>::new());
        assert_eq!(failures("go", "a\n"), Vec::<String>::new());
        assert_eq!(failures("python", "a\n"), ["scenario b has no passing test in python"]);
        assert_eq!(failures("go", "a\nb\n"), ["scenario b passed in go, and the list says go lacks it"]);
        assert_eq!(
            failures("go", "a\nc\n"),
            ["go covers \"c\", which is no scenario of tests/sdk/scenarios.json"]
        );
    }

    #[test]
    fn a_list_with_doubles_or_without_reasons_is_refused() {
        let refused = |list: &str| Scenarios::parse(list).err();
        assert!(refused(r#"{"scenarios": [{"id": "a"}, {"id": "a"}]}"#).is_some());
        assert!(refused(r#"{"scenarios": [{"id": "a", "lacking": {"go": ""}}]}"#).is_some());
        assert!(refused("{}").is_some());
    }

    #[test]
    fn the_list_of_the_workspace_is_one() {
        assert!(Scenarios::read().unwrap().scenarios.len() > 50);
    }
}
