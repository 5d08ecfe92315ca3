//! Contestants that take turns, and what their rounds say of each other.

use std::fmt;

use crate::AnyError;
use crate::load::Measured;
use crate::process::Pause;

/// One that takes part: its name, and how it does one round.
pub struct Contestant<'a> {
    pub name: &'static str,
    /// The process that does nothing while it is not its turn.
    pub process_id: Option<u32>,
    pub round: Box<dyn FnMut() -> Result<Measured, AnyError> + 'a>,
}

/// What one contestant did, round by round.
#[derive(Debug)]
pub struct Series {
    pub name: &'static str,
    pub rounds: Vec<Measured>,
}

/// Lets everyone do each round before anyone does the next. Whoever begins is another one each time, so that
/// nobody always works behind the same neighbour. Whoever waits is held still.
pub fn take_turns(rounds: usize, mut contestants: Vec<Contestant<'_>>) -> Result<Vec<Series>, AnyError> {
    let mut series: Vec<Series> =
        contestants.iter().map(|one| Series { name: one.name, rounds: Vec::new() }).collect();
    let mut held: Vec<Option<Pause>> =
        contestants.iter().map(|one| one.process_id.and_then(Pause::of)).collect();
    for round in 0..rounds {
        for turn in 0..contestants.len() {
            let index = (round + turn) % contestants.len();
            let one = &mut contestants[index];
            held[index] = None;
            let measured = (one.round)().map_err(|error| format!("{}: {error}", one.name))?;
            held[index] = one.process_id.and_then(Pause::of);
            series[index].rounds.push(measured);
        }
    }
    Ok(series)
}

impl Series {
    /// Requests a second, in each round.
    pub fn rates(&self) -> Vec<f64> {
        self.rounds.iter().map(Measured::rate).collect()
    }

    /// Microseconds of cores for each request, in each round.
    pub fn cpu_micros(&self) -> Vec<f64> {
        self.rounds.iter().map(Measured::cpu_micros).collect()
    }
}

/// The smallest, middle and largest of some figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    pub min: f64,
    pub median: f64,
    pub max: f64,
}

impl Range {
    /// Of figures, of which there must be one.
    pub fn of(figures: &[f64]) -> Option<Self> {
        let mut sorted = figures.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        Some(Self { min, median: sorted[sorted.len() / 2], max })
    }

    /// Of the ratios of figures of the same round.
    pub fn of_ratios(above: &[f64], below: &[f64]) -> Option<Self> {
        let pairs = above.iter().zip(below).filter(|(_, below)| **below > 0.0);
        Self::of(&pairs.map(|(above, below)| above / below).collect::<Vec<_>>())
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.min == self.max {
            return f.write_str(&figure(self.median));
        }
        write!(f, "{} ({} – {})", figure(self.median), figure(self.min), figure(self.max))
    }
}

/// A number with as many digits as mean something.
pub fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_taken_round_by_round() {
        let range = Range::of_ratios(&[10.0, 30.0, 20.0], &[10.0, 10.0, 10.0]);
        assert_eq!(range, Some(Range { min: 1.0, median: 2.0, max: 3.0 }));
        assert_eq!(Range::of_ratios(&[1.0], &[0.0]), None);
    }
}
