//! The shortest sequence that still shows a difference, written out for whoever mends it.

use crate::call::Sequence;
use crate::known::Difference;
use crate::run::{Next, Pair, Step};

/// The report of a difference, or nothing if it does not show again.
pub fn shorten(pair: &Pair, sequence: &Sequence, index: usize, difference: &Difference) -> Option<String> {
    let mut shortest = Sequence { calls: sequence.calls[..=index].to_vec(), ..sequence.clone() };
    let mut text = shown(pair, &shortest, difference)?;
    // The last call shows the difference; each earlier one may be needed for it or not.
    for position in (0..index).rev() {
        let mut shorter = shortest.clone();
        shorter.calls.remove(position);
        if let Some(shorter_text) = shown(pair, &shorter, difference) {
            shortest = shorter;
            text = shorter_text;
        }
    }
    Some(text)
}

/// Plays a sequence whose last call is to show the difference, and writes it down if it does.
fn shown(pair: &Pair, sequence: &Sequence, difference: &Difference) -> Option<String> {
    let mut text = String::new();
    let mut is_shown = false;
    pair.play(sequence, |step| {
        text.push_str(&format!(
            "--- {} {}\n{}\n",
            step.index,
            step.call.operation,
            step.ours.sent.trim_end()
        ));
        if step.index + 1 < sequence.calls.len() {
            return Next::GoOn;
        }
        is_shown = step.differences().iter().any(|found| found.field == difference.field);
        text.push_str(&answers(step, difference));
        Next::Stop
    });
    is_shown.then_some(text)
}

fn answers(step: &Step<'_>, difference: &Difference) -> String {
    format!(
        "--- ours\n{}\n--- azurite\n{}\n--- [{}] {}: ours {:?}, azurite {:?}",
        step.ours.received.trim_end(),
        step.azurite.received.trim_end(),
        step.call.case,
        difference.field,
        difference.ours,
        difference.azurite
    )
}
