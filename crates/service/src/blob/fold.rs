//! Joining the generations of a page blob.
//!
//! Every snapshot and every large clear begins a generation. When no snapshot needs two neighbours apart any more, the
//! cells of the newer one move into the older one, a few in each transaction, and the record forgets the newer one. A
//! cell always moves to where it is looked for later, so whoever reads or writes meanwhile finds it. The newest
//! generation is left alone: cells are being written to it.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use tavola_engine::{Change, ContentId};

use super::Blobs;
use super::cell::Cell;
use super::change::{BlobLocation, put_record, record_in};
use super::pages::scan_cells;
use super::prepare::{STEP_BYTES_MAX, STEP_ROWS_MAX};
use super::record::Body;
use super::rows::{RECORD_ROW, damaged, page_row};
use crate::failure::Failure;

/// Two generations of a blob that can be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair {
    newer: u64,
    older: u64,
    /// Nothing is looked for behind the older one.
    is_oldest: bool,
}

impl Blobs {
    /// Joins what can be joined, behind the answer.
    pub fn fold_later(self: &Arc<Self>, location: &BlobLocation) {
        let (blobs, location) = (self.clone(), location.clone());
        tokio::spawn(async move {
            if let Err(error) = blobs.fold(&location).await {
                tracing::debug!(%error, "generations of a page blob are left to the scrubber");
            }
        });
    }

    /// Joins generations of a page blob that no snapshot keeps apart.
    pub async fn fold(&self, location: &BlobLocation) -> Result<(), Failure> {
        let Some(record) = self.record(location).await? else { return Ok(()) };
        let Body::Pages { generations, .. } = &record.body else { return Ok(()) };
        if generations.len() < 3 {
            return Ok(());
        }
        let mut neighbours = Neighbours::new(generations);
        self.visit_earlier(location, |_, state| {
            neighbours.keep_apart(state.record.body.generations());
            ControlFlow::Continue(())
        })
        .await?;
        // A state that comes meanwhile has all of these generations, so it keeps none apart.
        for pair in neighbours.pairs() {
            while self.move_cells(location, pair).await? {}
        }
        Ok(())
    }

    /// Moves some cells; whether there may be more. The last time, the record forgets the generation that they have left.
    async fn move_cells(&self, location: &BlobLocation, pair: Pair) -> Result<bool, Failure> {
        let (mut cells, mut bytes) = (Vec::new(), 0);
        scan_cells(self.engine.as_ref(), location, pair.newer, 0..u64::MAX, |number, body| {
            cells.push(number);
            bytes += body.len();
            if cells.len() < STEP_ROWS_MAX / 2 && bytes < STEP_BYTES_MAX / 2 {
                return ControlFlow::Continue(());
            }
            ControlFlow::Break(Ok(()))
        })
        .await?;
        let newer = cells.iter().map(|cell| page_row(pair.newer, *cell));
        let older = cells.iter().map(|cell| page_row(pair.older, *cell));
        let names: Vec<Vec<u8>> = newer.chain(older).collect();
        let mut rows: Vec<&[u8]> = vec![RECORD_ROW];
        rows.extend(names.iter().map(Vec::as_slice));
        let decode = |body: &[u8]| Cell::decode(body).ok_or_else(|| damaged(location.space));
        let (replaced, goes_on) = self
            .transact(location, &rows, |_, rows| {
                let (mut changes, mut replaced) = (Vec::new(), HashMap::new());
                let Some(mut record) = record_in(location, &rows[0])? else {
                    return Ok((changes, (replaced, false)));
                };
                let Body::Pages { generations, .. } = &mut record.body else {
                    return Ok((changes, (replaced, false)));
                };
                let is_pair = |two: &[u64]| two == [pair.newer, pair.older];
                if !generations.windows(2).any(is_pair) {
                    return Ok((changes, (replaced, false)));
                }
                for (at, cell) in cells.iter().enumerate() {
                    let (newer, older) = (1 + at, 1 + cells.len() + at);
                    let Some(row) = &rows[newer] else { continue };
                    let kept = decode(&row.body)?;
                    let hidden = rows[older].as_ref().map(|row| decode(&row.body)).transpose()?;
                    let named: HashSet<ContentId> = kept.contents().collect();
                    let gone = hidden.iter().flat_map(|hidden| hidden.placed_contents(*cell));
                    replaced.extend(gone.filter(|(id, _)| !named.contains(id)));
                    changes.push(Change::Delete { index: newer });
                    if !kept.is_empty() || !pair.is_oldest {
                        changes.push(Change::Put { index: older, body: row.body.clone() });
                    } else if hidden.is_some() {
                        changes.push(Change::Delete { index: older });
                    }
                }
                if cells.is_empty() {
                    generations.retain(|generation| *generation != pair.newer);
                    changes.push(put_record(0, &record));
                }
                Ok((changes, (replaced, !cells.is_empty())))
            })
            .await?;
        for (content, cells) in replaced {
            self.drop_if_replaced(location, content, cells).await?;
        }
        Ok(goes_on)
    }
}

/// The generations of a blob, and which of its neighbours must stay apart.
struct Neighbours<'a> {
    generations: &'a [u64],
    places: HashMap<u64, usize>,
    /// Of each, whether some state has either it or the one behind, and not both.
    is_apart: Vec<bool>,
    /// Of each, whether some state has another one behind it.
    has_older: Vec<bool>,
}

impl<'a> Neighbours<'a> {
    fn new(generations: &'a [u64]) -> Self {
        let mut has_older = vec![true; generations.len()];
        if let Some(last) = has_older.last_mut() {
            *last = false;
        }
        Self {
            generations,
            places: generations.iter().enumerate().map(|(place, generation)| (*generation, place)).collect(),
            is_apart: vec![false; generations.len()],
            has_older,
        }
    }

    /// Keeps apart what an earlier state has only one of.
    fn keep_apart(&mut self, state: &[u64]) {
        let mut places: Vec<usize> =
            state.iter().filter_map(|generation| self.places.get(generation)).copied().collect();
        places.sort_unstable();
        for run in places.chunk_by(|one, next| one + 1 == *next) {
            if let (Some(first), Some(last)) = (run.first(), run.last()) {
                self.is_apart[*last] = true;
                if let Some(before) = first.checked_sub(1) {
                    self.is_apart[before] = true;
                }
            }
        }
        let all_but_last = state.split_last().map_or(state, |(_, rest)| rest);
        for place in all_but_last.iter().filter_map(|generation| self.places.get(generation)) {
            self.has_older[*place] = true;
        }
    }

    /// What is to be joined, one after the other. The newest generation is left out. All that can be one with an older
    /// generation is moved there at once, so every cell moves once.
    fn pairs(&self) -> Vec<Pair> {
        let places: Vec<usize> = (1..self.generations.len()).collect();
        let mut pairs = Vec::new();
        for run in places.chunk_by(|one, _| !self.is_apart[*one]) {
            let Some((last, newer)) = run.split_last() else { continue };
            let (older, is_oldest) = (self.generations[*last], !self.has_older[*last]);
            let newer = newer.iter().rev().map(|place| self.generations[*place]);
            pairs.extend(newer.map(|newer| Pair { newer, older, is_oldest }));
        }
        pairs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_joined_that_no_earlier_state_keeps_apart() {
        let check = |generations: &[u64], earlier: &[&[u64]], expected: &[(u64, u64, bool)]| {
            let mut neighbours = Neighbours::new(generations);
            earlier.iter().for_each(|state| neighbours.keep_apart(state));
            let found = neighbours.pairs().into_iter().map(|pair| (pair.newer, pair.older, pair.is_oldest));
            assert_eq!(found.collect::<Vec<_>>(), expected, "{generations:?} {earlier:?}");
        };
        check(&[1], &[], &[]);
        check(&[2, 1], &[], &[]);
        check(&[3, 2, 1], &[], &[(2, 1, true)]);
        check(&[3, 2, 1], &[&[2, 1]], &[(2, 1, true)]);
        check(&[3, 2, 1], &[&[1]], &[]);
        check(&[4, 3, 2, 1], &[], &[(2, 1, true), (3, 1, true)]);
        check(&[4, 3, 2, 1], &[&[1]], &[(3, 2, false)]);
        check(&[4, 3, 2, 1], &[&[2, 1]], &[(2, 1, true)]);
        check(&[4, 3, 2, 1], &[&[2, 1], &[1]], &[]);
        // An earlier state may have generations that the blob has not, also behind its own.
        check(&[4, 3, 2, 1], &[&[9, 2, 1, 8]], &[(2, 1, false)]);
        check(&[4, 3, 1], &[&[3, 2, 1]], &[(3, 1, true)]);
        check(&[6, 5, 4, 3, 2, 1], &[&[3, 2, 1]], &[(5, 4, false), (2, 1, true), (3, 1, true)][..]);
    }

    #[test]
    fn thousands_of_snapshots_are_told_apart_at_once() {
        const SNAPSHOTS: u64 = 3_000;
        let generations: Vec<u64> = (0..=SNAPSHOTS).rev().collect();
        let mut neighbours = Neighbours::new(&generations);
        for first in 1..generations.len() {
            neighbours.keep_apart(&generations[first..]);
        }
        assert_eq!(neighbours.pairs(), []);
    }
}
